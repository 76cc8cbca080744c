"""Which rollouts of a group earn the most by token?

GFPO samples larger groups than it trains on and learns from the rows with the
highest reward by token of each:

  keep_i  iff  row i is among the k of its group with the largest r_i / length_i

A long answer survives only if it is right and the right ones are few.

Paper: Shrivastava et al. 2025, "Sample More to Think Less: Group Filtered
Policy Optimization for Concise Reasoning" (GFPO), arXiv:2508.09726.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.keep._rows import place


def efficient(
  reward: chex.Array,
  length: chex.Array,
  group: chex.Array,
  index: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  k: int = 8,
) -> chex.Array:
  """Keeps the k rows of every group with the highest reward by token.

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    length: i32[B], tokens of each row; one without tokens has ratio 0.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    index: i32[B], place within the group; decides ties, lower first.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read or kept.
    k: rows kept of a group, >= 1; all of a group that has no more.

  Returns:
    bool[B], min(k, valid rows) of every group.

  Raises:
    ValueError: if `k` is less than 1.

  Note:
    Belongs in `keep`: the paper takes mean and standard deviation of the kept
    rows and gives the others advantage 0. In `keep_loss` the advantages are
    those of the whole group, as DataFlex-RL (2026, arXiv:2609.06107) has it.
    Wrong rows of reward 0 tie whatever their length. The paper trains on 8 of
    24 rows.

  Example:
    >>> reward, length = jnp.array([1.0, 0.0, 1.0]), jnp.array([9, 1, 5])
    >>> efficient(reward, length, jnp.zeros(3, int), jnp.arange(3),
    ...           num_groups=1, valid=jnp.ones(3, bool), k=2).tolist()
    [True, False, True]

  Reference:
    Shrivastava et al. 2025, arXiv:2508.09726 (token efficiency).
  """
  if k < 1:
    raise ValueError(f"k={k} must be >= 1: the rows kept of a group")
  chex.assert_rank([reward, length, group, index, valid], 1)
  ratio = numerics.safe_divide(jnp.where(valid, reward, 0), length)
  return valid & (place(group, num_groups, valid, ratio, -index) < k)
