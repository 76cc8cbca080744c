"""Should rows of a large advantage count for even more?

  w_i = n softmax(|adv| / T)_i over the n valid rows,  adv_i <- w_i adv_i

The weights have mean 1: the step is no larger, its rows are weighted unevenly.

Paper: DataFlex-RL, 2026, arXiv:2609.06107.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.advantage._mean_one import mean_one


def softmax_weight(
  adv: chex.Array,
  mask: chex.Array,
  *,
  valid: chex.Array,
  temperature: float = 1.0,
) -> chex.Array:
  """Advantages times a softmax of their size, a transform.

  `adv_i <- adv_i n softmax(|adv| / T)_i`

  Args:
    adv: f32[B] or f32[B, T]; by token, a row's size is the mean of |adv| over
      its trained tokens. Unread where not valid, or not trained.
    mask: bool[B, T], trained tokens.
    valid: bool[B], rows with an advantage, n of them.
    temperature: T > 0; the weights are even as it grows.

  Returns:
    f32 of the shape of `adv`, exactly 0 where not valid or where `adv` is 0.

  Raises:
    ValueError: if `temperature` is not greater than 0.

  Note:
    Rows of advantage 0 share in the mean of 1. No gradient is meant to pass
    the weights: the caller stops it at the advantages. The default temperature
    is derived here: the source does not state it.

  Example:
    >>> adv, mask = jnp.array([0.0, 1.0, -1.0, 0.5]), jnp.ones((4, 1), bool)
    >>> adv = softmax_weight(adv, mask, valid=jnp.ones(4, bool))
    >>> [round(x, 4) for x in adv.tolist()]
    [0.0, 1.3448, -1.3448, 0.4078]

  Reference:
    DataFlex-RL 2026, arXiv:2609.06107 (re-weighting by advantage).
  """
  if not temperature > 0:
    raise ValueError(
      f"temperature={temperature} must be > 0: raise it for even weights"
    )
  chex.assert_rank([mask, valid], [2, 1])
  by_row = (-1,) + (1,) * (adv.ndim - 1)
  use = valid if adv.ndim == 1 else mask & valid[:, None]
  adv = jnp.where(use, adv, 0).astype(jnp.float32)
  size = jnp.abs(adv)
  if adv.ndim == 2:
    size = numerics.masked_mean(size, use, axis=1)
  return adv * mean_one(size / temperature, valid).reshape(by_row)
