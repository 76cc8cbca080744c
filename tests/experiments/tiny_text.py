"""A tiny Llama that speaks SmolLM2's tokens, and a run of text on it."""

import jax
import numpy as np

from jaxroll import models
from jaxroll.models import smollm2

TASK = {
  "name": "reasoning_gym:chain_sum",
  "parameters": {"min_terms": 2, "max_terms": 2, "max_digits": 1},
  "per_grade": 24,
  "eval_per_grade": 8,
  "response_length": 4,
  "workers": 1,
}


def export(folder) -> str:
  """The model as a Hugging Face folder, made of what a GGUF file says."""
  source = smollm2.load()
  config = models.Config(
    vocab_size=source.tokenizer.size,
    embed=16,
    layers=1,
    heads=2,
    kv_heads=2,
    head_dim=8,
    ffn=16,
  )
  params = jax.device_get(models.policy(config).init(jax.random.key(0)))
  # An axis for each digit and for the stop, far from other tokens: what it
  # takes to answer with a number can be learned in a few steps.
  embedding = np.array(params["embed"]["embedding"])
  likely = [source.tokenizer.encode(str(digit))[-1] for digit in range(10)]
  likely.append(source.tokenizer.stops[0])
  embedding[likely] = 4 * np.eye(len(likely), config.embed)
  params["embed"]["embedding"] = embedding
  made = models.Pretrained(
    config, params, source.tokenizer, None, source.details
  )
  return str(models.export(folder, made))


def fill(config, folder, **changes):
  """A config of seconds on that model."""
  config.model = {"pretrained": folder}
  config.task = TASK
  config.warm_start.steps = 0
  sizes = {"prompts": 4, "rollouts": 16, "slots": 16, "micro_rows": 16}
  sizes |= {"eval_prompts": 4, "eval_k": 2}
  config.update(sizes | changes)
  return config
