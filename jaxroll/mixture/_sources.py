"""What did a step say of each source, and what weights may a mixture give?"""

import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.types import SCORED


def moments(x, source, group, status, num_sources):
  """Scored rows of each source and the mean of a column over them.

  Rows that a keep function removed count too: a filter by reward would hide
  how well a source does.

  Args:
    x: f32[B], unread where the row is not SCORED.
    source: i32[P], of the step's prompts.
    group: i32[B]. status: i32[B].
    num_sources: K, static.

  Returns:
    count, mean: f32[K]; mean 0 where there is no row.
  """
  own = of_rows(source, group)
  rows = (own, num_sources, status == SCORED)
  count = numerics.group_count(*rows).astype(jnp.float32)
  return count, numerics.group_mean(x, *rows)


def of_rows(source, group):
  """i32[B], the source of each row; -1 for a row without a prompt."""
  inside = (group >= 0) & (group < source.shape[0])
  return jnp.where(inside, source[jnp.clip(group, 0, source.shape[0] - 1)], -1)


def uniform(num_sources):
  """f32[K], equal weights."""
  return jnp.full((num_sources,), 1 / num_sources, jnp.float32)


def softmax(score, temperature, floor):
  """A floor for every source, the rest by softmax.

  Args:
    score: f32[K].
    temperature: > 0.
    floor: least weight before it is made to sum to 1 again.

  Returns:
    f32[K] that sums to 1; max(softmax(score / temperature), floor) over its
    sum, so that an entry may end slightly below the floor.
  """
  p = jnp.maximum(jax.nn.softmax(score / temperature), floor)
  return p / jnp.sum(p)


def check_floor(floor, num_sources):
  """Refuses a floor that the sources cannot all have."""
  if not 0 <= floor * num_sources <= 1:
    raise ValueError(
      f"floor={floor} for {num_sources} sources: must lie in "
      f"[0, {1 / num_sources:.4g}]: lower floor"
    )


def check_positive(**numbers):
  """Refuses numbers that are not > 0."""
  for name, x in numbers.items():
    if not x > 0:
      raise ValueError(f"{name}={x} must be > 0")


def check_weights(weights, num_sources=None):
  """Refuses weights that are negative, all 0 or of another number."""
  if weights is None:
    return
  if min(weights) < 0 or not sum(weights) > 0:
    raise ValueError(f"weights={weights}: must be >= 0 and not all 0")
  if num_sources is not None and len(weights) != num_sources:
    raise ValueError(
      f"weights={weights} has {len(weights)} entries, the task has "
      f"{num_sources} sources: give one an entry"
    )


def target(weights, num_sources):
  """f32[K] that sums to 1: the given weights, or equal ones for None."""
  check_weights(weights, num_sources)
  if weights is None:
    return uniform(num_sources)
  weights = jnp.asarray(weights, jnp.float32)
  return weights / jnp.sum(weights)
