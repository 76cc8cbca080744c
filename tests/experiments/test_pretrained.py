"""A pretrained model on a task of text, from the folder to the results."""

import json

import jax
import pytest

from experiments import build, cli, compare, train
from experiments.configs import compare_smollm2, quickstart
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A tiny Llama with SmolLM2's tokenizer, as a Hugging Face folder."""
  tokenizer = smollm2.load().tokenizer
  config = models.Config(
    vocab_size=tokenizer.size,
    embed=16,
    layers=1,
    heads=2,
    kv_heads=1,
    head_dim=8,
    ffn=16,
  )
  params = jax.device_get(models.policy(config).init(jax.random.key(0)))
  made = models.Pretrained(config=config, params=params, tokenizer=tokenizer)
  return str(models.export(tmp_path_factory.mktemp("hf") / "tiny", made))


def fill(config, folder, **changes):
  config.model = {"pretrained": folder}
  config.task = TASK
  config.warm_start.steps = 0
  sizes = {"prompts": 4, "rollouts": 16, "slots": 16, "micro_rows": 16}
  sizes |= {"eval_prompts": 4, "eval_k": 2}
  config.update(sizes | changes)
  return config


def test_a_run_starts_at_the_weights_and_trains_them(folder, tmp_path):
  config = fill(quickstart.get_config(), folder, steps=2, recipe="uniform")
  summary = train.run(config, str(tmp_path / "run"))
  assert summary["steps"] == 2 and summary["rollouts"] == 32
  shown = (tmp_path / "run" / "transcripts.jsonl").read_text(encoding="utf-8")
  assert "<|im_start|>user" in json.loads(shown.splitlines()[0])["prompt"]


def test_methods_are_compared_on_it(folder, tmp_path):
  config = fill(compare_smollm2.get_config(), folder, budget=32, eval_every=1)
  records = compare.run(config, str(tmp_path), names=["vade"], seeds=2)
  assert [r["method"] for r in records] == ["uniform", "vade"]
  assert all(r["rollouts"] == 32 and r["seeds"] == 2 for r in records)


@pytest.mark.parametrize(
  "changes, said",
  [
    (
      {"model": {"pretrained": "/nowhere"}},
      "pretrained: '/nowhere' is neither",
    ),
    ({"model": {"pretrained": ""}}, "is a task of text: set model.pretrained"),
    ({"task": {"name": "arithmetic"}}, "has a vocabulary of its own"),
    ({"task": {"name": "nosuch:x"}}, "task.name='nosuch:x': must be one of"),
  ],
)
def test_what_does_not_go_together_is_refused(folder, changes, said):
  config = fill(quickstart.get_config(), folder)
  for name, value in changes.items():
    config[name] = value
  with pytest.raises(ValueError, match=said):
    build.task(config.task, build.pretrained(config.model))


def test_slots_need_a_verifier_on_the_device(folder, tmp_path):
  config = fill(compare_smollm2.get_config(), folder, budget=32)
  with pytest.raises(cli.Refused, match="slot_mixed: .*verifies on the host"):
    compare.run(config, str(tmp_path / "x"), names=["slot_mixed"], seeds=2)
