"""Between which values may an estimate lie? Resample the prompts.

  interval = quantiles (1 - level) / 2 and (1 + level) / 2 of
             statistic(prompts drawn N times with replacement)

Prompts are drawn, each with all of its samples: these share its difficulty,
and to draw them one by one would make the interval too short.
"""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

_AT_ONCE = 64  # resamples evaluated together


class Interval(NamedTuple):
  """Ends of an interval: f32[...], NaN where there is none."""

  low: chex.Array
  high: chex.Array


def bootstrap(
  statistic: Callable,
  *arrays,
  key,
  resamples: int = 1000,
  level: float = 0.95,
) -> Interval:
  """Percentile interval of a statistic of prompts.

  Args:
    statistic: (*arrays) -> f32[...], jittable; NaN where a resample has no
      value, which is then left out.
    *arrays: each with leading axis N, the prompts.
    key: typed PRNG key; the same key draws the same prompts.
    resamples: >= 100.
    level: of the interval, in (0, 1).

  Returns:
    `Interval`; NaN for a single prompt, of which all resamples are equal.

  Raises:
    ValueError: no arrays, or a number out of its range.

  Note:
    Where all prompts have one value (none solved), the interval has no width:
    it shows what the prompts differ in, not what was never seen.

  Example:
    >>> solved = jnp.arange(100) < 40
    >>> found = bootstrap(
    ...   lambda x: jnp.mean(x, dtype=jnp.float32), solved,
    ...   key=jax.random.key(0))
    >>> bool(0.28 < found.low < 0.34), bool(0.46 < found.high < 0.52)
    (True, True)

  Reference:
    Efron 1979, Annals of Statistics 7(1); Efron and Tibshirani 1993, An
    introduction to the bootstrap, chapter 13.
  """
  if not arrays:
    raise ValueError("no arrays: give at least one, with the prompts first")
  if resamples < 100:
    raise ValueError(f"resamples={resamples}: must be at least 100")
  if not 0 < level < 1:
    raise ValueError(f"level={level}: must be in (0, 1)")
  arrays = [jnp.asarray(x) for x in arrays]
  chex.assert_equal_shape_prefix(arrays, 1)
  number = arrays[0].shape[0]

  def one(key):
    rows = jax.random.randint(key, (number,), 0, number)
    return statistic(*(jnp.take(x, rows, axis=0) for x in arrays))

  keys = jax.random.split(key, resamples)
  values = jax.lax.map(one, keys, batch_size=_AT_ONCE)
  ends = jnp.array([(1 - level) / 2, (1 + level) / 2], jnp.float32)
  low, high = jnp.nanquantile(values.astype(jnp.float32), ends, axis=0)
  known = number > 1
  return Interval(
    jnp.where(known, low, jnp.nan), jnp.where(known, high, jnp.nan)
  )
