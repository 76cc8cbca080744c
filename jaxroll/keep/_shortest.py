"""Which rollouts of a group teach to say it briefly?

GFPO samples larger groups than it trains on and learns from the k shortest
rows of each, right or wrong:

  keep_i  iff  row i is among the k of its group with the smallest length

Paper: Shrivastava et al. 2025, "Sample More to Think Less: Group Filtered
Policy Optimization for Concise Reasoning" (GFPO), arXiv:2508.09726.
"""

import chex

from jaxroll.keep._rows import place


def shortest(
  length: chex.Array,
  group: chex.Array,
  index: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  k: int = 8,
) -> chex.Array:
  """Keeps the k shortest rows of every group.

  Args:
    length: i32[B], tokens of each row; unread where not valid.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    index: i32[B], place within the group; decides ties, lower first.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never kept.
    k: rows kept of a group, >= 1; all of a group that has no more.

  Returns:
    bool[B], min(k, valid rows) of every group.

  Raises:
    ValueError: if `k` is less than 1.

  Note:
    Belongs in `keep`: the paper takes mean and standard deviation of the kept
    rows and gives the others advantage 0. In `keep_loss` the advantages are
    those of the whole group, as DataFlex-RL (2026, arXiv:2609.06107) has it.
    The paper trains on 8 of 24 rows.

  Example:
    >>> import jax.numpy as jnp
    >>> length, group = jnp.array([5, 3, 9]), jnp.zeros(3, int)
    >>> shortest(length, group, jnp.arange(3), num_groups=1,
    ...          valid=jnp.ones(3, bool), k=2).tolist()
    [True, True, False]

  Reference:
    Shrivastava et al. 2025, arXiv:2508.09726 (shortest k of G).
  """
  if k < 1:
    raise ValueError(f"k={k} must be >= 1: the rows kept of a group")
  chex.assert_rank([length, group, index, valid], 1)
  return valid & (place(group, num_groups, valid, -length, -index) < k)
