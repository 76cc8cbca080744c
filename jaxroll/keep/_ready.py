"""Which groups hold a correct and a wrong attempt?

Factorized Adaptive Rollout trains on groups that are ready. A prompt whose
attempts are all correct is easy and one whose attempts are all wrong is hard;
neither has a contrast to learn from:

  keep_i  iff  some r of the group >= success  and  some r < success

An attempt that was dropped, or that the verifier could not score, is neither.

Paper: SimpleSearch-VL, 2026, arXiv:2606.31504.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics


def ready(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  success: float = 1.0,
) -> chex.Array:
  """Keeps the rows of groups with a correct and a wrong attempt.

  `keep_i = max(r of the group) >= success > min(r of the group)`

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read or kept.
    success: the least reward of a correct attempt.

  Returns:
    bool[B]; False also for groups with fewer than two valid rows.

  Note:
    With rewards of 0 and 1 these are the groups that `mixed` keeps. With
    partial credit they are fewer: a group of unequal rewards without a correct
    attempt is hard. The level is derived here: the source speaks of correct
    and wrong attempts only. Whole groups leave, so no baseline moves.

  Example:
    >>> reward = jnp.array([1.0, 0.0, 0.5, 0.0])
    >>> group, valid = jnp.array([0, 0, 1, 1]), jnp.ones(4, bool)
    >>> ready(reward, group, num_groups=2, valid=valid).tolist()
    [True, True, False, False]

  Reference:
    SimpleSearch-VL 2026, arXiv:2606.31504 (Factorized Adaptive Rollout).
  """
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  correct = jnp.where(valid, reward, 0).astype(jnp.float32) >= success
  rights = numerics.group_count(group, num_groups, valid & correct)
  wrongs = numerics.group_count(group, num_groups, valid & ~correct)
  return valid & ((rights > 0) & (wrongs > 0))[group]
