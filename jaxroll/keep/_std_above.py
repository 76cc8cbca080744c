"""Do a prompt's rewards differ enough?

ROLL's std filter drops a query before it costs an update:

  keep_i  iff  std(r of the group) > threshold        (of the sample, ddof 1)

Paper: ROLL, 2025, arXiv:2506.06122.
"""

import chex

from jaxroll import numerics


def std_above(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  threshold: float = -1.0,
) -> chex.Array:
  """Keeps the rows of groups whose rewards spread by more than a threshold.

  `keep_i = std(r of the group) > threshold`

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read or kept.
    threshold: of the sample's standard deviation, excluded. The paper's
      default lets every group pass; 0 drops tied groups.

  Returns:
    bool[B]. A group of one valid row is always kept.

  Note:
    Whole groups leave, so no baseline moves, in `keep` or in `keep_loss`. The
    paper starts another prompt in place of a dropped one; here the step's
    budget is fixed and the batch becomes smaller.

  Example:
    >>> import jax.numpy as jnp
    >>> reward = jnp.array([1.0, 0.0, 1.0, 1.0])
    >>> group, valid = jnp.array([0, 0, 1, 1]), jnp.ones(4, bool)
    >>> std_above(reward, group, num_groups=2, valid=valid,
    ...           threshold=0.0).tolist()
    [True, True, False, False]

  Reference:
    ROLL 2025, arXiv:2506.06122 (query filter of the rollout scheduler).
  """
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  std = numerics.group_std(reward, group, num_groups, valid)
  alone = numerics.group_count(group, num_groups, valid) == 1
  return valid & (alone | (std > threshold))[group]
