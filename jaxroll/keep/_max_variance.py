"""Which n rollouts of a group have the most contrast?

PODS generates many rollouts and trains on the n whose rewards vary most. Such
a subset is made of the i lowest and the n - i highest rewards for some i:

  S_i = {i lowest, n - i highest},  keep S of max_i Var[r of S_i]

With rewards of 0 and 1 these are n/2 right and n/2 wrong rows, where there are
as many.

Paper: Xu et al. 2025, "Not All Rollouts are Useful: Down-Sampling Rollouts in
LLM Reinforcement Learning" (PODS), arXiv:2504.13818.
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.keep._rows import place


def max_variance(
  reward: chex.Array,
  group: chex.Array,
  index: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  n: int = 16,
) -> chex.Array:
  """Keeps the n rows of every group whose rewards have the largest variance.

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    index: i32[B], place within the group; orders equal rewards.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read or kept.
    n: rows kept of a group, >= 1; all of a group that has no more.

  Returns:
    bool[B], min(n, valid rows) of every group. Of several best subsets, the
    one with the most of the high rewards.

  Raises:
    ValueError: if `n` is less than 1.

  Note:
    Belongs in `keep`: the paper's advantages are standardised within the
    subset. In `keep_loss` they are those of the whole group, as DataFlex-RL
    (2026, arXiv:2609.06107) has it. The paper trains on 16 of 64 rows.

  Example:
    >>> reward = jnp.array([0.9, 0.5, 0.1, 0.6])
    >>> max_variance(reward, jnp.zeros(4, int), jnp.arange(4), num_groups=1,
    ...              valid=jnp.ones(4, bool), n=2).tolist()
    [True, False, True, False]

  Reference:
    Xu et al. 2025, arXiv:2504.13818 (max-variance down-sampling).
  """
  if n < 1:
    raise ValueError(f"n={n} must be >= 1: the rows kept of a group")
  chex.assert_rank([reward, group, index, valid], 1)
  chex.assert_equal_shape([reward, group, index, valid])
  reward = jnp.where(valid, reward, 0).astype(jnp.float32)
  from_low = place(group, num_groups, valid, -reward, -index)
  count = numerics.group_count(group, num_groups, valid)
  # About the lowest: 0/1 rewards have exact sums, and equal splits tie.
  excess = reward - jnp.where(
    valid, _lowest(reward, group, num_groups, valid)[group], 0.0
  )

  def subset(lows):
    """The `lows[p]` lowest and n - lows[p] highest rows of group p."""
    highs = from_low >= (count - n + lows)[group]
    return valid & ((from_low < lows[group]) | highs)

  def spread(lows):
    where = subset(jnp.full_like(count, lows))
    total = numerics.group_sum(excess, group, num_groups, where)
    square = numerics.group_sum(excess**2, group, num_groups, where)
    return n * square - total**2

  splits = jnp.arange(n + 1, dtype=jnp.int32)
  lows = jnp.argmax(jax.vmap(spread)(splits), axis=0).astype(jnp.int32)
  return subset(lows) | (valid & (count <= n)[group])


def _lowest(reward, group, num_groups, valid):
  """Smallest valid reward of each group, f32[P]; unread for an empty one."""
  bins = jnp.where(valid, group, num_groups)
  return jax.ops.segment_min(reward, bins, num_groups)
