"""Which failures of a hard prompt are one too many?

With standardised binary advantages a group's signal grows with
sqrt(p (1 - p)), p the share of right rows among those kept, and is largest
where as many are wrong as right. Of a group with few successes all c right
rows are kept and m of the wrong ones, drawn at random:

  m = floor(k c)  if 0 < c / n < threshold,  else all

AERO (2026), arXiv:2602.14338.
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.keep._rows import place


def aero(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  key: chex.Array,
  k: float = 1.0,
  threshold: float = 0.5,
  success: float = 0.5,
) -> chex.Array:
  """Keeps k wrong rows for each right one where less than half are right.

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read or kept.
    key: PRNG key; draws the wrong rows that stay.
    k: wrong rows kept for each right one, > 0; at least one of them stays.
    threshold: share of right rows from which on all rows stay, in [0, 1].
    success: the least reward of a right row.

  Returns:
    bool[B]; all valid rows of groups that are all right or all wrong.

  Raises:
    ValueError: if `k` or `threshold` is out of range.

  Note:
    Belongs in `keep`: the paper standardises over the kept rows. Groups
    without contrast are thinned out by `thin_flat`, in `keep_loss`, since
    their advantage counts all of their rows. Which wrong rows leave is
    derived here, as the source does not state it: a uniform choice.

  Example:
    >>> reward = jnp.array([1.0, 0.0, 0.0, 0.0])
    >>> group, valid = jnp.zeros(4, int), jnp.ones(4, bool)
    >>> kept = aero(reward, group, num_groups=1, valid=valid,
    ...             key=jax.random.key(0))
    >>> bool(kept[0]), int(kept.sum())
    (True, 2)

  Reference:
    AERO 2026, arXiv:2602.14338 (selective rejection).
  """
  if k <= 0:
    raise ValueError(f"k={k} must be > 0: 1 keeps as many wrong as right rows")
  if not 0 <= threshold <= 1:
    raise ValueError(
      f"threshold={threshold} must be in [0, 1]: 0 keeps every row"
    )
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  right = valid & (jnp.where(valid, reward, 0).astype(jnp.float32) >= success)
  wrong = valid & ~right
  rights = numerics.group_count(group, num_groups, right)
  rows = numerics.group_count(group, num_groups, valid)
  share = numerics.safe_divide(rights, rows)
  few = (rights > 0) & (share < threshold)
  # What is whole must not be rounded down by a floating-point error.
  m = jnp.floor(k * rights.astype(jnp.float32) + 1e-4).astype(jnp.int32)
  room = jnp.where(few, jnp.maximum(m, 1), rows)
  drawn = jax.random.uniform(key, reward.shape, jnp.float32)
  return right | (
    wrong & (place(group, num_groups, wrong, drawn) < room[group])
  )
