"""Which candidates is the policy unsure about now?

  h_i = mean over the prompt's tokens of the entropy of the CURRENT policy's
        next-token distribution,  ids = top num of h_i

One forward pass over the prompt, without a rollout, checks a history that has
gone stale. The paper keeps the candidates with h at or above their median:
those are the first half of this order, so that with at least 2 num candidates
all places go to them, and with fewer the shortfall goes to the next best.

HIVE (2026), arXiv:2603.25184.
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll.select._top import top
from jaxroll.types import PromptStats, Quota


def hive_check(
  stats: PromptStats,
  pool: jax.Array,
  prompt_entropy: jax.Array,
  *,
  num: int,
  blocked: jax.Array | None = None,
  quota: Quota | None = None,
  key: jax.Array,
) -> jax.Array:
  """The candidates of highest prompt entropy, HIVE's second stage.

  Args:
    stats: PromptStats[N], read for N only.
    pool: i32[M], candidates, -1 empty.
    prompt_entropy: f32[M], nats, one entry an id of `pool`.
    num: ids wanted, 1 <= num <= M.
    blocked: bool[N], ids that must not be selected, or None.
    quota: types.Quota, or None.
    key: not used, the signature is every selector's.

  Returns:
    i32[num], distinct ids, highest entropy first, -1 where none is left.

  Raises:
    ValueError: where num is out of range.

  Example:
    >>> from jaxroll import posterior
    >>> hive_check(posterior.init(9), jnp.array([7, 2, 5]),
    ...            jnp.array([1.2, 0.7, 2.2]), num=2, key=None).tolist()
    [5, 7]

  Reference:
    HIVE, 2026, arXiv:2603.25184.
  """
  del key
  chex.assert_equal_shape([pool, prompt_entropy])
  size = stats.alpha.shape[0]
  inside = jnp.where(pool < 0, size, pool)
  score = jnp.zeros((size,), jnp.float32)
  score = score.at[inside].set(prompt_entropy, mode="drop")
  return top(score, pool, num, blocked, quota)
