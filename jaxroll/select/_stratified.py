"""What if a fixed share of a step's prompts were hard, medium and easy?

  hard: p < low,  medium: low <= p <= high,  easy: p > high

The places of each stratum are its share of `num` by largest remainder, at most
as many as it has prompts; places it cannot fill go to the strata of largest
share first. Inside a stratum prompts are drawn uniformly.

TableGPT-R1 (2025), arXiv:2512.20312.
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll import apportion, numerics, posterior
from jaxroll.select._top import first, top
from jaxroll.types import PromptStats, Quota


def stratum(rate, *, low=0.3, high=0.7):
  """0 hard, 1 medium, 2 easy; both bounds are medium.

  Args:
    rate: f32[N], solve rates.
    low, high: bounds of the medium stratum.

  Returns:
    i32[N].

  Example:
    >>> stratum(jnp.array([0.0, 0.3, 0.5, 0.7, 0.9])).tolist()
    [0, 1, 1, 1, 2]
  """
  return (rate >= low).astype(jnp.int32) + (rate > high).astype(jnp.int32)


def seats(available, share, num):
  """Places of each stratum.

  Args:
    available: i32[K], prompts of each.
    share: f32[K], sums to 1.
    num: places.

  Returns:
    i32[K], at most `available`, sums to min(num, sum(available)).

  Example:
    >>> seats(jnp.array([1, 40, 40]), jnp.array([0.2, 0.6, 0.2]), 10).tolist()
    [1, 7, 2]
  """
  chex.assert_equal_shape([available, share])
  taken = jnp.minimum(apportion.largest_remainder(share, num), available)
  order = jnp.argsort(-share, stable=True)
  room = (available - taken)[order]
  before = jnp.cumsum(room) - room
  more = jnp.clip(num - jnp.sum(taken) - before, 0, room)
  return taken.at[order].add(more)


def stratified(
  stats: PromptStats,
  pool: jax.Array,
  *,
  num: int,
  blocked: jax.Array | None = None,
  quota: Quota | None = None,
  key: jax.Array,
  share: tuple = (0.2, 0.6, 0.2),
  low: float = 0.3,
  high: float = 0.7,
) -> jax.Array:
  """Prompts in fixed shares of difficulty, by posterior mean solve rates.

  Args:
    stats: PromptStats[N]; alpha and beta are read, prior included.
    pool: i32[M], ids that may be selected.
    num: ids wanted, 1 <= num <= M.
    blocked: bool[N], ids that must not be selected, or None.
    quota: types.Quota, or None; where it and the shares differ, it wins.
    key: PRNG key.
    share: of hard, medium and easy prompts, >= 0, sums to 1.
    low, high: solve rates that bound the medium stratum, low <= high.

  Returns:
    i32[num], distinct ids in random order, -1 where none is left.

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> stratified(posterior.init(4), jnp.arange(4), num=2,
    ...            key=jax.random.key(0)).shape
    (2,)

  Note:
    The paper sorts prompts once, by 5 rollouts of the base model; here the
    strata follow the beliefs, and a prompt without evidence is medium.

  Reference:
    TableGPT-R1, 2025, arXiv:2512.20312.
  """
  if len(share) != 3 or min(share) < 0 or abs(sum(share) - 1) > 1e-6:
    raise ValueError(f"share={share}: three shares >= 0 that sum to 1")
  if not 0 <= low <= high <= 1:
    raise ValueError(f"low={low}, high={high}: need 0 <= low <= high <= 1")
  draw = jax.random.uniform(key, stats.alpha.shape, jnp.float32)
  kind = stratum(posterior.mean(stats), low=low, high=high)
  able = first(draw, pool, draw.shape[0], blocked)
  available = numerics.group_count(kind, 3, able)
  places = seats(available, jnp.asarray(share, jnp.float32), num)
  chosen = top(draw, pool, num, blocked, Quota(kind, places))
  inside = jnp.where(chosen < 0, draw.shape[0], chosen)
  return top(draw.at[inside].add(1.0, mode="drop"), pool, num, blocked, quota)
