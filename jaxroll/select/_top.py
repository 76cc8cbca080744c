"""Which ids of a pool score highest, within each source's quota?"""

import chex
import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.types import Quota


def top(
  score: jax.Array,
  pool: jax.Array,
  num: int,
  blocked: jax.Array | None,
  quota: Quota | None = None,
) -> jax.Array:
  """The `num` ids of highest score that are not blocked.

  With a quota, the best `count[k]` ids of each source k come first; places
  that a source cannot fill go to the best ids left of any source.

  Args:
    score: f32[N], finite.
    pool: i32[M], distinct ids; -1 is an empty entry, never selected.
    num: ids wanted, 1 <= num <= M.
    blocked: bool[N] or None for none.
    quota: types.Quota or None for none.

  Returns:
    i32[num], best first (within the quota, then beside it), ties in the pool's
    order, -1 where none is left.

  Raises:
    ValueError: where num is out of range.

  Example:
    >>> top(jnp.array([0.1, 0.3, 0.2]), jnp.arange(3), 2, None).tolist()
    [1, 2]
  """
  pool = jnp.asarray(pool, jnp.int32)
  chex.assert_rank([score, pool], 1)
  if not 1 <= num <= pool.shape[0]:
    raise ValueError(
      f"select: num={num} is not in 1 <= num <= {pool.shape[0]}, the pool's "
      "size: select fewer prompts or widen the pool"
    )
  # An empty entry would read the last id's score.
  able = pool >= 0
  if blocked is not None:
    able &= ~blocked[pool]
  score = jnp.where(able, score[pool], -jnp.inf)
  if quota is None:
    best, place = jax.lax.top_k(score, num)
    return jnp.where(best > -jnp.inf, pool[place], -1)
  rank = numerics.rank_by(_within(score, able, pool, quota), score)
  # Ranks from num on fall outside and are dropped.
  ids = jnp.full((num,), -1, jnp.int32)
  return ids.at[rank].set(jnp.where(able, pool, -1), mode="drop")


def shuffled(score: jax.Array, key: jax.Array) -> jax.Array:
  """The same order of ids, ties broken at random and by id.

  Args:
    score: f32[N].
    key: PRNG key; each id's draw depends on it and the id.

  Returns:
    f32[N], the whole numbers 0 ... N - 1, the largest for the best.

  Example:
    >>> shuffled(jnp.array([0.1, 0.3, 0.2]), jax.random.key(0)).tolist()
    [0.0, 2.0, 1.0]
  """
  draw = jax.random.uniform(key, score.shape, jnp.float32)
  rank = numerics.rank_by(score, draw)
  return (score.shape[0] - 1 - rank).astype(jnp.float32)


def first(
  draw: jax.Array, pool: jax.Array, count, blocked: jax.Array | None
) -> jax.Array:
  """The `count` ids of smallest draw among those that may be selected.

  Args:
    draw: f32[N].
    pool: i32[M], distinct ids, -1 empty.
    count: i32[], may be traced.
    blocked: bool[N] or None for none.

  Returns:
    bool[N], True for `count` ids, or for all that may be selected.

  Example:
    >>> first(jnp.array([0.1, 0.3, 0.2]), jnp.array([1, 2]), 1, None).tolist()
    [False, False, True]
  """
  size = draw.shape[0]
  pool = jnp.asarray(pool, jnp.int32)
  # An empty entry is moved out of range and dropped.
  inside = jnp.where(pool < 0, size, pool)
  able = jnp.zeros((size,), bool).at[inside].set(True, mode="drop")
  if blocked is not None:
    able &= ~blocked
  return able & (numerics.rank_by(able, -draw) < count)


def _within(score, able, pool, quota):
  """bool[M], among the best `count` ids of their source that are able."""
  order = jnp.argsort(-score, stable=True)
  kinds = jnp.arange(quota.count.shape[0], dtype=jnp.int32)
  own = (quota.source[pool][order][:, None] == kinds[None, :]) & able[order][
    :, None
  ]
  place = jnp.cumsum(own.astype(jnp.int32), axis=0)
  kept = jnp.any(own & (place <= quota.count[None, :]), axis=1)
  return jnp.zeros_like(able).at[order].set(kept)
