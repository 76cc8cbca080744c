"""Which ids of a pool score highest?"""

import chex
import jax
import jax.numpy as jnp


def top(
  score: jax.Array, pool: jax.Array, num: int, blocked: jax.Array | None
) -> jax.Array:
  """The `num` ids of highest score that are not blocked.

  Args:
    score: f32[N], finite.
    pool: i32[M], distinct ids.
    num: ids wanted, 1 <= num <= M.
    blocked: bool[N] or None for none.

  Returns:
    i32[num], best first, ties in the pool's order, -1 where none is left.

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
  score = score[pool]
  if blocked is not None:
    score = jnp.where(blocked[pool], -jnp.inf, score)
  best, place = jax.lax.top_k(score, num)
  return jnp.where(best > -jnp.inf, pool[place], -1)
