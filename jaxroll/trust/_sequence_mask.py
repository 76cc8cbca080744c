"""Which rows did sampler and trainer see too differently to learn from?

  weight = ratio  if low <= ratio <= high, else 0
  ratio  = exp(sum_t (old_logp_t - behaviour_logp_t))

Source: Liu, Li, Fu, Wang, Liu & Shen 2025, "When Speed Kills Stability:
Demystifying RL Collapse from the Training-Inference Mismatch" (blog), masked
importance sampling at sequence level.
"""

import chex

from jaxroll import numerics, types
from jaxroll.trust import _build


def sequence_mask(
  old_logp: chex.Array,
  behaviour_logp: chex.Array,
  mask: chex.Array,
  *,
  low: float = 0.5,
  high: float = 2.0,
) -> types.Trust:
  """Importance weight of every row, 0 where it is too far from 1.

  `weight = ratio if low <= ratio <= high else 0`, the same for its tokens.

  Args:
    old_logp: f32[B, T], nats, the trainer's, before the update.
    behaviour_logp: f32[B, T], nats, the sampler's.
    mask: bool[B, T], trained tokens; the others are never read.
    low: smallest ratio kept, in [0, 1]; 0 masks large ratios only.
    high: largest ratio kept, >= 1.

  Returns:
    Trust of f32[B, T] without bounds. The weight compares two fixed
    log-probs: it is constant over the inner epochs.

  Raises:
    ValueError: if `low` or `high` is out of its range.

  Note:
    The source masks large ratios only (low=0). A weight multiplies the
    numerator only: a row left out still counts in the loss's denominator. The
    exponent is cut off at 20.

  Example:
    >>> import jax.numpy as jnp
    >>> old_logp, mask = jnp.array([[-1.0], [-1.0]]), jnp.ones((2, 1), bool)
    >>> behaviour_logp = jnp.array([[-1.0], [-3.0]])
    >>> sequence_mask(old_logp, behaviour_logp, mask).weight.tolist()
    [[1.0], [0.0]]

  Reference:
    Liu et al. 2025 (blog), masked importance sampling.
  """
  gap = _build.log_gap(old_logp, behaviour_logp, mask)
  row = numerics.masked_sum(gap, mask, axis=1)
  weight = _build.inside(row, low, high)
  return _build.build(old_logp, mask, weight=weight[:, None])
