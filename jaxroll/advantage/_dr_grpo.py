"""Which part of a reward is not explained by its prompt?

Dr. GRPO keeps the group mean of GRPO as baseline and drops the division by
the group's standard deviation, which overweights very easy and very hard
prompts:

  adv_i = r_i - mean(r of the group)

Paper: Liu et al. 2025, "Understanding R1-Zero-Like Training: A Critical
Perspective", arXiv:2503.20783.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics


def dr_grpo(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
) -> chex.Array:
  """Reward minus the mean reward of its group.

  `adv_i = r_i - mean(r of the group)`

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read.

  Returns:
    f32[B], exactly 0 in tied groups, in groups of one and where not valid.

  Example:
    >>> reward = jnp.array([1.0, 0.0, 0.0, 0.0])
    >>> group, valid = jnp.zeros(4, int), jnp.ones(4, bool)
    >>> dr_grpo(reward, group, num_groups=1, valid=valid).tolist()
    [0.75, -0.25, -0.25, -0.25]

  Reference:
    Liu et al. 2025, arXiv:2503.20783, section 3.2. The paper's other change,
    a constant instead of the row's length below the loss, is
    `objective.aggregate.constant_length`.
  """
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  reward = jnp.where(valid, reward, 0).astype(jnp.float32)
  # `group_mean` is exact for ties, so their difference is exactly 0.
  mean = numerics.group_mean(reward, group, num_groups, valid)
  return jnp.where(valid, reward - mean[group], 0.0)
