"""How much better is a row than the other rows of its prompt?

RLOO takes the mean of the group's OTHER rows as baseline, so that the baseline
of a row does not depend on the row and the gradient stays unbiased. With G
rows in the group this is Dr. GRPO's advantage times G / (G - 1):

  adv_i = r_i - 1/(G-1) sum_{j != i} r_j = G/(G-1) (r_i - mean(r of the group))

Paper: Ahmadian et al. 2024, "Back to Basics: Revisiting REINFORCE Style
Optimization for Learning from Human Feedback in LLMs", arXiv:2402.14740.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics


def rloo(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
) -> chex.Array:
  """Reward minus the mean reward of the other rows of its group.

  `adv_i = r_i - 1/(G-1) sum_{j != i} r_j = G/(G-1) (r_i - mean)`

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read and do not
      count in G.

  Returns:
    f32[B], exactly 0 in tied groups, in groups of one and where not valid.

  Note:
    A group of one has no other rows and the paper's value is undefined: 0
    here, so that the row teaches nothing.

  Example:
    >>> reward = jnp.array([3.0, 0.0, 0.0])
    >>> group, valid = jnp.zeros(3, int), jnp.ones(3, bool)
    >>> rloo(reward, group, num_groups=1, valid=valid).tolist()
    [3.0, -1.5, -1.5]

  Reference:
    Ahmadian et al. 2024, arXiv:2402.14740 (RLOO); Kool et al. 2019,
    "Buy 4 REINFORCE Samples, Get a Baseline for Free!".
  """
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  reward = jnp.where(valid, reward, 0).astype(jnp.float32)
  mean = numerics.group_mean(reward, group, num_groups, valid)
  count = numerics.group_count(group, num_groups, valid)
  scale = numerics.safe_divide(count, count - 1)  # 0 for a group of one
  adv = scale[group] * (reward - mean[group])
  return jnp.where(valid, adv, 0.0)
