"""When does the next, harder source open?

  a group of the open source with mean reward > tau has passed;
  once `passes` groups have passed, the next source opens, for good

Sources are a lineage of rising difficulty: only the open one is drawn, none of
a later generation before its turn, so that groups without a success are rare.

Environment evolution (2026), arXiv:2609.04128.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.types import SCORED, Method


class Place(NamedTuple):
  """Where in the lineage a run is.

  Attributes:
    generation: i32[], the open source. passed: i32[], groups passed in it.
    done: bool[], the last source is passed too; it stays open.
  """

  generation: jax.Array
  passed: jax.Array
  done: jax.Array


def advance(place: Place, passed, sizes) -> Place:
  """The place after some more groups have passed.

  Args:
    place: `Place`.
    passed: i32[], groups of the open source that passed now.
    sizes: i32[K], groups that must pass in each generation.

  Returns:
    `Place`; one generation further at most, and no generation after the last.

  Example:
    >>> start = Place(jnp.int32(0), jnp.int32(1), jnp.bool_(False))
    >>> place = advance(start, jnp.int32(1), jnp.array([2, 1]))
    >>> int(place.generation), int(place.passed), bool(place.done)
    (1, 0, False)
  """
  total, size = place.passed + passed, sizes[place.generation]
  full = total >= size
  last = place.generation == sizes.shape[0] - 1
  return Place(
    jnp.where(full & ~last, place.generation + 1, place.generation),
    jnp.where(full & ~last, 0, jnp.minimum(total, size)),
    place.done | (full & last),
  )


def lineage(*, tau: float = 0.75, passes: int | None = None) -> Method:
  """One source at a time, from the first to the last.

  Args:
    tau: mean reward that a group must exceed to pass, in [0, 1): with 8
      binary rewards, 7 or 8 of 8.
    passes: groups that must pass before the next source opens, >= 1; None
      takes the prompts of a step.

  Returns:
    types.Method whose state is a `Place` and the groups that must pass in
    each generation, i32[K].

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> lineage(passes=3).apply.__name__
    'apply'

  Note:
    The paper runs one environment a step and walks through those of a
    generation in order; here a step holds many prompts of the open source and
    a passed group counts for one environment: derived here, as is what
    happens at the end.

  Reference:
    arXiv:2609.04128.
  """
  if not 0 <= tau < 1:
    raise ValueError(f"tau={tau} must lie in [0, 1): no mean reward exceeds 1")
  if passes is not None and passes < 1:
    raise ValueError(f"passes={passes} must be >= 1, or None")

  def init(sizes, *, key):
    del key
    needed = sizes.prompts if passes is None else passes
    return (
      Place(jnp.int32(0), jnp.int32(0), jnp.zeros((), bool)),
      jnp.full((sizes.num_sources,), needed, jnp.int32),
    )

  def apply(state, *, step, key):
    del step, key
    place, sizes = state
    kinds = jnp.arange(sizes.shape[0], dtype=jnp.int32)
    return (kinds == place.generation).astype(jnp.float32), state

  def update(state, source, group, status, reward):
    place, sizes = state
    rows = (group, source.shape[0], status == SCORED)
    mean = numerics.group_mean(reward, *rows)
    some = numerics.group_count(*rows) > 0
    passed = some & (mean > tau) & (source == place.generation)
    now = jnp.sum(passed, dtype=jnp.int32)
    return advance(place, now, sizes), sizes

  return Method(init, apply, update)
