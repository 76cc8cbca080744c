"""Weights of rows that leave the size of the step as it was."""

import chex
import jax.numpy as jnp

from jaxroll import numerics


def mean_one(score: chex.Array, where: chex.Array) -> chex.Array:
  """softmax(score) over the rows that count, scaled to a mean of 1.

  Args:
    score: f32[B], log weights; unread where `where` is False.
    where: bool[B], rows that count.

  Returns:
    f32[B], of mean 1 over the rows that count; 0 elsewhere.

  Example:
    >>> mean_one(jnp.array([0.0, 0.0, 9.0]),
    ...          jnp.array([True, True, False])).tolist()
    [1.0, 1.0, 0.0]
  """
  chex.assert_rank([score, where], 1)
  low = jnp.finfo(jnp.float32).min
  score = jnp.where(where, score, low)
  shifted = jnp.where(where, score - jnp.max(score), 0.0)
  weight = jnp.where(where, jnp.exp(shifted), 0.0)
  count = jnp.sum(where).astype(jnp.float32)
  return numerics.safe_divide(weight * count, jnp.sum(weight))
