"""One small task of each kind, and rows written by hand."""

import pathlib
import string
import types as std_types

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import environments, types
from jaxroll.environments import vocabulary

_SUMS = [(f"{a}+{b}=", str(a + b)) for a in range(6) for b in range(5, 11)]

SAMPLES = pathlib.Path(environments.__file__).parent / "samples"


def tokenizer(**changes):
  """A tokenizer with a token a character, digits first, and a bare chat."""
  plain = vocabulary.characters(
    string.digits + string.ascii_letters + string.punctuation + " \n"
  )

  def chat(messages):
    text = "\n".join(message["content"] for message in messages)
    return [vocabulary.START, *plain.encode(text)]

  return std_types.SimpleNamespace(**plain._asdict() | {"chat": chat} | changes)


# Every function of environments.__all__ has a row: () -> types.Task.
TASKS = {
  "arithmetic": lambda: environments.arithmetic(
    grades=["+:1:2", "-:2:3", "*:2:2"], per_grade=20, eval_per_grade=5
  ),
  "countdown": lambda: environments.countdown(
    numbers=4, per_grade=20, eval_per_grade=5
  ),
  "host_task": lambda: environments.host_task(
    "sums",
    _SUMS,
    lambda prompt, completion, answer: completion == answer,
    response_length=4,
    solutions=[answer for _, answer in _SUMS],
  ),
  "questions": lambda: environments.questions(
    str(SAMPLES / "svamp.json"),
    tokenizer=tokenizer(),
    question="{Body} {Question}",
    answer="Answer",
    solution="Answer",
    check="exact",
    response_length=6,
    eval_fraction=0.3,
    workers=0,
  ),
  "reasoning_gym": lambda: environments.reasoning_gym(
    "chain_sum",
    tokenizer=tokenizer(),
    levels=[{"max_digits": 1}, {"min_digits": 2, "max_digits": 2}],
    parameters={"min_terms": 2, "max_terms": 2},
    per_grade=12,
    eval_per_grade=4,
    least_score=1.0,
    response_length=6,
    workers=1,
  ),
}


def rollouts(tokens, length, *, group, stopped=None, valid=None):
  """Plain rows: nothing given, everything after the context sampled."""
  tokens = jnp.asarray(tokens, jnp.int32)
  rows, width = tokens.shape
  length = jnp.asarray(length, jnp.int32)
  true = jnp.ones(rows, bool)
  zeros, zeros_f = jnp.zeros(rows, jnp.int32), jnp.zeros((rows, width))
  mask = jnp.arange(width)[None, :] < length[:, None]
  return types.Rollouts(
    group=jnp.asarray(group, jnp.int32),
    index=zeros,
    context=jnp.asarray(group, jnp.int32),
    born=zeros,
    round=zeros,
    given_length=zeros,
    length=length,
    valid=true if valid is None else jnp.asarray(valid),
    stopped=true if stopped is None else jnp.asarray(stopped),
    tokens=tokens,
    origin=mask.astype(jnp.int8) * jnp.int8(types.SAMPLED),
    behaviour_logp=zeros_f,
    entropy=zeros_f,
    mask=mask,
  )


def written(texts, width, *, group, stop="|"):
  """Rows from texts in which `stop` stands for the stop token at the end."""
  tokens = np.zeros((len(texts), width), np.int32)
  for row, text in zip(tokens, texts):
    ids = vocabulary.encode(text.removesuffix(stop))
    ids += [vocabulary.STOP] * text.endswith(stop)
    row[: len(ids)] = ids
  return rollouts(
    tokens,
    [len(text) for text in texts],
    group=group,
    stopped=np.array([text.endswith(stop) for text in texts]),
  )


def find(task, text):
  """The id of a prompt by its text, without the start token."""
  texts = prompt_texts(task)
  return texts.index(text)


def prompt_texts(task):
  """Texts of all prompts, without the start token."""
  return [
    task.decode(row[1:length])
    for row, length in zip(task.data.prompt, task.data.prompt_length)
  ]


def verifier(task):
  """`task.verify`, jitted where it may be, else given numpy arrays."""
  if task.jittable:
    return jax.jit(task.verify)
  return lambda *records: task.verify(*jax.tree.map(np.asarray, records))
