"""Is a prompt's mean reward away from both ends?

ROLL's mean filter drops a query before it costs an update:

  keep_i  iff  low < mean(r of the group) < high

Paper: ROLL, 2025, arXiv:2506.06122.
"""

import math

import chex

from jaxroll import numerics


def mean_between(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  low: float = -1.0,
  high: float = math.inf,
) -> chex.Array:
  """Keeps the rows of groups whose mean reward lies strictly inside a range.

  `keep_i = low < mean(r of the group) < high`

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read or kept.
    low, high: bounds of the mean reward, low < high; both excluded. The
      paper's defaults let every reward above -1 pass.

  Returns:
    bool[B]. A group of one valid row is always kept.

  Raises:
    ValueError: if `low` is not less than `high`.

  Note:
    Whole groups leave, so no baseline moves, in `keep` or in `keep_loss`. The
    paper starts another prompt in place of a dropped one; here the step's
    budget is fixed and the batch becomes smaller.

  Example:
    >>> import jax.numpy as jnp
    >>> reward = jnp.array([1.0, 0.0, 1.0, 1.0])
    >>> group, valid = jnp.array([0, 0, 1, 1]), jnp.ones(4, bool)
    >>> mean_between(reward, group, num_groups=2, valid=valid,
    ...              low=0.1, high=0.9).tolist()
    [True, True, False, False]

  Reference:
    ROLL 2025, arXiv:2506.06122 (query filter of the rollout scheduler).
  """
  if not low < high:
    raise ValueError(
      f"low={low}, high={high}: low must be less than high, or every group of "
      "two rows is dropped"
    )
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  mean = numerics.group_mean(reward, group, num_groups, valid)
  alone = numerics.group_count(group, num_groups, valid) == 1
  return valid & (alone | ((low < mean) & (mean < high)))[group]
