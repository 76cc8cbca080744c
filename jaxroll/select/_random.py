"""What if prompts are drawn uniformly, without replacement?

  ids = the num smallest of u_i ~ U(0, 1), over the ids that may be selected

The baseline of every selection method.
"""

import jax
import jax.numpy as jnp

from jaxroll.select._top import top
from jaxroll.types import PromptStats, Quota


def random(
  stats: PromptStats,
  pool: jax.Array,
  *,
  num: int,
  blocked: jax.Array | None = None,
  quota: Quota | None = None,
  key: jax.Array,
) -> jax.Array:
  """A uniform sample of the pool without replacement.

  Args:
    stats: PromptStats[N], read for N only.
    pool: i32[M], ids that may be selected.
    num: ids wanted, 1 <= num <= M.
    blocked: bool[N], ids that must not be selected, or None.
    quota: types.Quota, or None.
    key: PRNG key.

  Returns:
    i32[num], distinct ids, -1 where none is left.

  Raises:
    ValueError: where num is out of range.

  Example:
    >>> from jaxroll import posterior
    >>> random(posterior.init(4), jnp.arange(4), num=2,
    ...     key=jax.random.key(0)).shape
    (2,)
  """
  # Drawn by id, so that a pool's order does not change the sample.
  draws = jax.random.uniform(key, stats.alpha.shape, jnp.float32)
  return top(-draws, pool, num, blocked, quota)
