"""How much better is a row than the average row of the step?

  adv_i = r_i - mean(r of the batch)

Paper: Williams 1992, "Simple Statistical Gradient-Following Algorithms for
Connectionist Reinforcement Learning" (REINFORCE with a reinforcement
baseline), Machine Learning 8, doi:10.1007/BF00992696.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics


def reinforce(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
) -> chex.Array:
  """Reward minus the mean reward of all valid rows of the batch.

  `adv_i = r_i - mean(r of the batch)`

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], not read: the baseline is the whole batch's.
    num_groups: not read.
    valid: bool[B], rows that are scored; the others are never read.

  Returns:
    f32[B], exactly 0 where not valid, and everywhere if all valid rewards of
    the batch are equal. A tied GROUP does not give 0: its rows are compared
    with the other prompts'.

  Note:
    The paper allows any baseline that does not depend on the row. The batch
    mean contains the row's own reward, which shrinks the expected gradient by
    (B-1)/B of B valid rows: the direction is unbiased.

  Example:
    >>> reward = jnp.array([1.0, 0.0, 0.0, 0.0])
    >>> group, valid = jnp.array([0, 0, 1, 1]), jnp.ones(4, bool)
    >>> reinforce(reward, group, num_groups=2, valid=valid).tolist()
    [0.75, -0.25, -0.25, -0.25]

  Reference:
    Williams 1992, Machine Learning 8, doi:10.1007/BF00992696.
  """
  del num_groups
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  reward = jnp.where(valid, reward, 0).astype(jnp.float32)
  batch = jnp.zeros_like(group)  # The batch as one group.
  mean = numerics.group_mean(reward, batch, 1, valid)
  return jnp.where(valid, reward - mean[batch], 0.0)
