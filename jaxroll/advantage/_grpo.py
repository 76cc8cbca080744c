"""How many standard deviations of its group is a row above the mean?

  adv_i = (r_i - mean(r of the group)) / (std(r of the group) + eps)

Paper: Shao et al. 2024, "DeepSeekMath: Pushing the Limits of Mathematical
Reasoning in Open Language Models", arXiv:2402.03300.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics


def grpo(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  eps: float = 1e-6,
  ddof: int = 1,
) -> chex.Array:
  """Reward standardised within its group.

  `adv_i = (r_i - mean(r of the group)) / (std(r of the group) + eps)`

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read.
    eps: added to the standard deviation, >= 0.
    ddof: 1 for the sample's standard deviation, 0 for the population's.

  Returns:
    f32[B], exactly 0 in tied groups, in groups of one and where not valid.

  Raises:
    ValueError: if `eps` is negative or `ddof` neither 0 nor 1.

  Note:
    The paper states neither `eps` nor the kind of standard deviation. The
    sample's (ddof=1) is what its widespread implementations compute. A tied
    group, 0/0 in the paper, is defined as 0, its limit for any eps > 0.

  Example:
    >>> reward = jnp.array([4.0, 2.0, 0.0])
    >>> group, valid = jnp.zeros(3, int), jnp.ones(3, bool)
    >>> grpo(reward, group, num_groups=1, valid=valid, eps=0.0).tolist()
    [1.0, 0.0, -1.0]

  Reference:
    Shao et al. 2024, arXiv:2402.03300, section 4.1.2 (outcome supervision).
  """
  if eps < 0:
    raise ValueError(f"eps={eps} must be >= 0: use 1e-6, or 0 for none")
  if ddof not in (0, 1):
    raise ValueError(
      f"ddof={ddof} must be 0 or 1: 1 is the sample's standard deviation, "
      "0 the population's"
    )
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  reward = jnp.where(valid, reward, 0).astype(jnp.float32)
  mean = numerics.group_mean(reward, group, num_groups, valid)
  std = numerics.group_std(reward, group, num_groups, valid, ddof=ddof)
  # Ties have a numerator of exactly 0; with eps = 0 safe_divide makes 0/0 0.
  adv = numerics.safe_divide(reward - mean[group], std[group] + eps)
  return jnp.where(valid, adv, 0.0)
