"""Which groups say anything about what is better?

A group whose rewards are all equal has no advantage and no gradient, but its
tokens still count in the denominators and dilute the step. DAPO filters such
groups out:

  keep_i  iff  min(r of the group) < max(r of the group)

With binary rewards these are the groups with 0 < number right < G.

Paper: Yu et al. 2025, "DAPO: An Open-Source LLM Reinforcement Learning System
at Scale", arXiv:2503.14476.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics


def mixed(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
) -> chex.Array:
  """Keeps the rows of groups whose valid rewards are not all equal.

  `keep_i = min(r of the group) < max(r of the group)`

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read or kept.

  Returns:
    bool[B]; False also for groups with fewer than two valid rows.

  Note:
    The paper goes on sampling until the batch is full of mixed groups. Here
    a step has a fixed budget, and the dropped rows make it smaller.

  Example:
    >>> reward = jnp.array([1.0, 0.0, 1.0, 1.0])
    >>> group, valid = jnp.array([0, 0, 1, 1]), jnp.ones(4, bool)
    >>> mixed(reward, group, num_groups=2, valid=valid).tolist()
    [True, True, False, False]

  Reference:
    Yu et al. 2025, arXiv:2503.14476, section 3.2 (dynamic sampling, eq. 11).
  """
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  reward = jnp.where(valid, reward, 0)
  tied = numerics.group_tied(reward, group, num_groups, valid)
  return valid & ~tied[group]
