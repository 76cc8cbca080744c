"""Suite: how long does one optimiser step on given rows take?

  update_fixed   `rows` rows of `new` tokens
  update_ragged  rows of geometric length

`train.update` by the uniform recipe: GRPO's clipped objective, AdamW behind a
clip of the gradient. Everyone gets the same tokens, lengths and advantages.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import products, shapes, timing
from jaxroll import models, recipes, train, types

RATE = 1e-6


def cases(of: shapes.Shapes) -> dict[str, Callable]:
  """name -> () -> timing.Case."""
  return {
    "update_fixed": functools.partial(case, of, "update_fixed", ragged=False),
    "update_ragged": functools.partial(case, of, "update_ragged", ragged=True),
  }


def case(of: shapes.Shapes, name: str, *, ragged: bool) -> timing.Case:
  """An update that goes on from the last one's weights."""
  batch = shapes.batch(of, ragged=ragged)
  policy = models.policy(shapes.config(of))
  num = len(batch.prompts)
  sizes = types.Sizes(num, num, of.rows, of.prompt, of.new)
  rules, optimiser = recipes.uniform(sizes), train.adamw(RATE)
  params = jax.jit(policy.init)(jax.random.key(0))
  learner = types.Learner(params, optimiser.init(params))
  contexts = types.Contexts(
    jnp.asarray(batch.prompts), jnp.full((num,), of.prompt, jnp.int32)
  )
  rows = columns(of, batch)

  @functools.partial(jax.jit, donate_argnums=0)
  def update(learner, rows, contexts):
    return train.update(
      rules,
      policy,
      optimiser,
      learner,
      rows,
      contexts,
      num_groups=num,
      micro_rows=min(of.micro_rows, of.rows),
      temperature=jnp.float32(1),
      key=jax.random.key(0),
    )

  held = [learner]

  def call():
    held[0], metrics = jax.block_until_ready(update(held[0], rows, contexts))
    return metrics

  tokens = int(batch.length.sum()) + of.rows * of.prompt
  return timing.Case(
    name=name,
    call=call,
    tokens=lambda metrics: tokens,
    flops=lambda metrics: flops(of, batch.length),
    products=lambda metrics: update_products(of, batch.length),
    job={
      "kind": "update",
      "rate": RATE,
      "arrays": batch._asdict(),
    },
  )


def columns(of: shapes.Shapes, batch: shapes.Batch) -> dict[str, jax.Array]:
  """The columns [B, ...] that `train.update` reads."""
  group = np.arange(of.rows, dtype=np.int32) // shapes.GROUP
  mask = np.arange(of.new)[None, :] < batch.length[:, None]
  # Of a model that is uniform; the drawn one is near to it.
  logp = np.where(mask, -np.log(of.vocab), 0).astype(np.float32)
  zero = np.zeros(of.rows, np.int32)
  rows = {
    "group": group,
    "context": group,
    "index": np.arange(of.rows, dtype=np.int32) % shapes.GROUP,
    "length": batch.length,
    "given_length": zero,
    "round": zero,
    "status": zero,
    "stopped": batch.length < of.new,
    "valid": np.ones(of.rows, bool),
    "reward": np.zeros(of.rows, np.float32),
    "adv": batch.adv,
    "tokens": np.where(mask, batch.tokens, 0),
    "mask": mask,
    "entropy": -logp,
    "behaviour_logp": logp,
    "old_logp": logp,
  }
  return jax.tree.map(jnp.asarray, rows)


def flops(of: shapes.Shapes, length) -> float:
  """Of forward and backward, each prompt once."""
  rows = shapes.row_flops(of, length)
  return 3 * (rows + shapes.prompt_flops(of, len(length) // shapes.GROUP))


def update_products(of: shapes.Shapes, length) -> float:
  """Seconds of the bare products of rows and prompts, in pieces of a size."""
  layers, head = shapes.weights(of)
  passed = min(of.micro_rows, of.rows) * of.new
  piece = products.seconds(of, passed, passed, backward=True)
  total, prompts = int(np.sum(length)), len(length) // shapes.GROUP
  work = layers * (total + prompts * of.prompt) + head * total
  return piece * work / ((layers + head) * passed)
