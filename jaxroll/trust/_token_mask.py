"""Which tokens did sampler and trainer see too differently to learn from?

  weight_t = ratio_t  if low <= ratio_t <= high, else 0
  ratio_t  = exp(old_logp_t - behaviour_logp_t)

Truncation trains on a token however large its ratio was; this leaves it out.

Source: IcePop, "Small Leak Can Sink a Great Ship: Boost RL Training on MoE
with IcePop" (blog, 2025), used for Ring-1T: Ling Team 2025, "Every Step
Evolves: Scaling Reinforcement Learning for Trillion-Scale Thinking Model",
arXiv:2510.18855.
"""

import chex

from jaxroll import types
from jaxroll.trust import _build


def token_mask(
  old_logp: chex.Array,
  behaviour_logp: chex.Array,
  mask: chex.Array,
  *,
  low: float = 0.5,
  high: float = 2.0,
) -> types.Trust:
  """Importance weight of every token, 0 where it is too far from 1.

  `weight_t = ratio_t if low <= ratio_t <= high else 0`

  Args:
    old_logp: f32[B, T], nats, the trainer's, before the update.
    behaviour_logp: f32[B, T], nats, the sampler's.
    mask: bool[B, T], trained tokens; the others are never read.
    low: smallest ratio kept, in [0, 1].
    high: largest ratio kept, >= 1.

  Returns:
    Trust of f32[B, T] without bounds. The weight compares two fixed
    log-probs: it is constant over the inner epochs.

  Raises:
    ValueError: if `low` or `high` is out of its range.

  Note:
    A weight multiplies the numerator only: a token left out still counts in
    the loss's denominator. The exponent is cut off at 20. The interval is
    symmetric in logs here; IcePop's is asymmetric, with a larger `high`.

  Example:
    >>> import jax.numpy as jnp
    >>> old_logp, mask = jnp.array([[-1.0, -1.0]]), jnp.ones((1, 2), bool)
    >>> behaviour_logp = jnp.array([[-1.0, -3.0]])
    >>> token_mask(old_logp, behaviour_logp, mask).weight.tolist()
    [[1.0, 0.0]]

  Reference:
    IcePop (blog, 2025), double-sided masking; arXiv:2510.18855.
  """
  gap = _build.log_gap(old_logp, behaviour_logp, mask)
  weight = _build.inside(gap, low, high)
  return _build.build(old_logp, mask, weight=weight)
