"""What if reward, ratio and clipping all act on the whole row?

GSPO's ratio is the row's importance ratio to the power 1/length:

  s = exp(mean_t (logp_t - anchor_t)),   over the row's trained tokens
  loss = -min(s A, clip(s, low, high) A)

The form computed here is the paper's GSPO-token, which gives each token its
own gradient and allows advantages by token:

  s_t = sg(s) exp(logp_t - sg(logp_t)),   of value s
  loss_t = -w_t min(s_t A_t, clip(s_t, low, high) A_t)

With one A and one w for the row, its mean over the row's tokens
(`aggregate.sequence_mean`) has GSPO's value and GSPO's gradient.

Paper: Zheng et al. 2025, "Group Sequence Policy Optimization",
arXiv:2507.18071.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.objective import _token


def gspo(
  logp: chex.Array,
  anchor: chex.Array,
  adv: chex.Array,
  low: chex.Array,
  high: chex.Array,
  weight: chex.Array,
  mask: chex.Array,
) -> tuple[chex.Array, dict[str, chex.Array]]:
  """Clipped surrogate loss of the row's length-normalised ratio.

  `loss_t = -weight_t min(s_t adv_t, clip(s_t, low, high) adv_t)`

  Args:
    logp: f32[B, T], nats, of the learner, with gradient.
    anchor: f32[B, T], nats, the ratio's denominator.
    adv: f32[B] or f32[B, T].
    low, high: f32[B, T], bounds of the ratio, low <= 1 <= high (inf allowed).
      The paper's, `trust.clip(low=3e-4, high=4e-4)`, are much tighter than
      PPO's.
    weight: f32[B, T], importance weight, >= 0.
    mask: bool[B, T], trained tokens; the others do not enter the mean.

  Returns:
    loss: f32[B, T], exactly 0 where the mask is False.
    aux: "clipped", 1 where the gradient of a token was removed by a bound.

  Note:
    The paper has one pair of bounds a row. Where bounds differ within a row
    the tightest are taken: the largest low and the smallest high of its
    trained tokens. The log of s is cut off at +-20.

  Example:
    >>> one = jnp.ones((1, 2))
    >>> logp, anchor = jnp.array([[0.5, -0.5]]), 0.0 * one
    >>> loss, _ = gspo(logp, anchor, jnp.array([3.0]), 0.9 * one, 1.1 * one,
    ...                one, one > 0)
    >>> loss.tolist()
    [[-3.0, -3.0]]

  Reference:
    Zheng et al. 2025, arXiv:2507.18071, eqs. 5-7 (GSPO), 13-14 (GSPO-token).
  """
  adv = _token.constant(adv, mask)
  low = jnp.max(_token.constant(low, mask), axis=1, keepdims=True)
  high = jnp.where(mask, _token.constant(high, mask), jnp.inf)
  high = jnp.min(high, axis=1, keepdims=True)
  logp, fixed = _token.masked(logp, mask), _token.constant(logp, mask)
  gap = fixed - _token.constant(anchor, mask)
  s = _token.exp_bounded(numerics.masked_mean(gap, mask, axis=1))
  ratio = s[:, None] * jnp.exp(logp - fixed)  # eq. 14: exp(0), with gradient
  low, high = _token.one_sided(adv, low, high, dual_clip=None)
  ratio, clipped = _token.bounded(ratio, low, high)
  loss = -_token.constant(weight, mask) * ratio * adv
  return loss, {"clipped": clipped}
