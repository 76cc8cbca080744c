"""Which rows of the step carry most of its gradient?

  keep_i  iff  row i is among the ceil(fraction n) of the n valid rows with the
               largest |adv_i|

The rows of all prompts compete; those that stay keep their advantages.

Paper: DataFlex-RL, 2026, arXiv:2609.06107.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.keep._rows import by_row


def top_advantage(
  adv: chex.Array,
  index: chex.Array,
  mask: chex.Array,
  *,
  valid: chex.Array,
  fraction: float = 0.5,
) -> chex.Array:
  """Keeps the share of the step's rows with the largest |advantage|.

  Args:
    adv: f32[B] or f32[B, T]; by token, a row's is the mean of |adv| over its
      trained tokens. Unread where not valid, or not trained.
    index: i32[B], place within the group; decides ties, lower first.
    mask: bool[B, T], trained tokens.
    valid: bool[B], rows with an advantage; the others are never kept.
    fraction: share that is kept, in (0, 1].

  Returns:
    bool[B], ceil(fraction n) of n valid rows.

  Raises:
    ValueError: if `fraction` is not in (0, 1].

  Note:
    Belongs in `keep_loss`: the advantages are made before. Rows of advantage 0
    are kept where fewer rows have another one; `mixed` drops those. The
    fraction is derived here: the source does not state it.

  Example:
    >>> adv, mask = jnp.array([0.1, -2.0, 1.0, 0.0]), jnp.ones((4, 1), bool)
    >>> top_advantage(adv, jnp.arange(4), mask,
    ...               valid=jnp.ones(4, bool)).tolist()
    [False, True, True, False]

  Reference:
    DataFlex-RL 2026, arXiv:2609.06107 (top fraction by advantage).
  """
  if not 0 < fraction <= 1:
    raise ValueError(
      f"fraction={fraction} must be in (0, 1]: the share of rows kept"
    )
  chex.assert_rank([index, valid], 1)
  size = jnp.where(valid, by_row(jnp.abs(adv), mask), 0.0)
  rank = numerics.rank_by(valid, size, -index)
  # 0.1 * 30 is above 3 in floating point and must not round up to 4.
  share = fraction * jnp.sum(valid).astype(jnp.float32) * (1 - 1e-6)
  return valid & (rank < jnp.ceil(share).astype(jnp.int32))
