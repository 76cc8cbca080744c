"""How are several updates made from one batch without going too far?

PPO's clipped surrogate is a pessimistic bound of the importance-weighted
advantage; it removes the gradient of a token that has moved far enough:

  ratio_t = exp(logp_t - anchor_t)
  loss_t = -w_t min(ratio_t A_t, clip(ratio_t, low_t, high_t) A_t)

Dual clipping also bounds what a large ratio can do when A < 0:

  loss_t = -w_t max(min(...), c A_t)   where A_t < 0

Papers: Schulman et al. 2017, "Proximal Policy Optimization Algorithms",
arXiv:1707.06347; Ye et al. 2020, "Mastering Complex Control in MOBA Games with
Deep Reinforcement Learning", arXiv:1912.09729 (dual clip).
"""

import chex

from jaxroll.objective import _token


def ppo_clip(
  logp: chex.Array,
  anchor: chex.Array,
  adv: chex.Array,
  low: chex.Array,
  high: chex.Array,
  weight: chex.Array,
  mask: chex.Array,
  *,
  dual_clip: float | None = None,
) -> tuple[chex.Array, dict[str, chex.Array]]:
  """Clipped surrogate loss.

  `loss_t = -weight_t min(ratio_t adv_t, clip(ratio_t, low_t, high_t) adv_t)`

  Args:
    logp: f32[B, T], nats, of the learner, with gradient.
    anchor: f32[B, T], nats, the ratio's denominator.
    adv: f32[B] or f32[B, T].
    low, high: f32[B, T], bounds of the ratio, low <= 1 <= high (inf allowed).
    weight: f32[B, T], importance weight, >= 0.
    mask: bool[B, T], trained tokens.
    dual_clip: c > 1, the largest ratio that counts where adv < 0, or None. Ye
      et al. use 3.

  Returns:
    loss: f32[B, T], exactly 0 where the mask is False.
    aux: "clipped", 1 where the gradient of a token was removed by a bound.

  Raises:
    ValueError: if `dual_clip` is not greater than 1.

  Note:
    The log ratio is cut off at +-20, where it also loses its gradient; with
    adv >= 0 that lies beyond any finite bound, with adv < 0 it acts only
    without `dual_clip`. A ratio exactly on a bound counts as inside.

  Example:
    >>> import jax.numpy as jnp
    >>> one = jnp.ones((1, 2))
    >>> logp, anchor = jnp.log(jnp.array([[1.5, 0.5]])), 0.0 * one
    >>> loss, aux = ppo_clip(logp, anchor, jnp.array([1.0]), 0.75 * one,
    ...                      1.25 * one, one, one > 0)
    >>> loss.tolist(), aux["clipped"].tolist()
    ([[-1.25, -0.5]], [[1.0, 0.0]])

  Reference:
    Schulman et al. 2017, arXiv:1707.06347, eq. 7; Ye et al. 2020,
    arXiv:1912.09729 (dual-clip PPO).
  """
  adv = _token.constant(adv, mask)
  low, high = _token.constant(low, mask), _token.constant(high, mask)
  ratio = _token.token_ratio(logp, anchor, mask)
  low, high = _token.one_sided(adv, low, high, dual_clip)
  ratio, clipped = _token.bounded(ratio, low, high)
  loss = -_token.constant(weight, mask) * ratio * adv
  return loss, {"clipped": clipped}
