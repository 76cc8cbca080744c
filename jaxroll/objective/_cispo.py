"""How is the ratio bounded without losing a token's gradient?

PPO's clipping silences tokens that moved, among them rare but decisive ones.
CISPO clips the importance weight instead and keeps every token:

  loss_t = -sg(w_t clip(ratio_t, low_t, high_t)) A_t logp_t

Paper: MiniMax 2025, "MiniMax-M1: Scaling Test-Time Compute Efficiently with
Lightning Attention", arXiv:2506.13585.
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll.objective import _token


def cispo(
  logp: chex.Array,
  anchor: chex.Array,
  adv: chex.Array,
  low: chex.Array,
  high: chex.Array,
  weight: chex.Array,
  mask: chex.Array,
) -> tuple[chex.Array, dict[str, chex.Array]]:
  """Policy gradient loss with a clipped importance weight.

  `loss_t = -sg(weight_t clip(ratio_t, low_t, high_t)) adv_t logp_t`

  Args:
    logp: f32[B, T], nats, of the learner, with gradient.
    anchor: f32[B, T], nats, the ratio's denominator.
    adv: f32[B] or f32[B, T].
    low, high: f32[B, T], bounds of the ratio, low <= 1 <= high (inf allowed).
    weight: f32[B, T], importance weight, >= 0.
    mask: bool[B, T], trained tokens.

  Returns:
    loss: f32[B, T], exactly 0 where the mask is False.
    aux: "clipped", 1 where the ratio was outside its bounds; such a token
    keeps its gradient, with the bound as weight.

  Note:
    The paper bounds the ratio from above only: `trust.clip(low=1.0, high=...)`
    does that. The log ratio is cut off at +-20.

  Example:
    >>> one = jnp.ones((1, 1))
    >>> loss, aux = cispo(-1.0 * one, -3.0 * one, jnp.array([2.0]), 0.0 * one,
    ...                   1.25 * one, one, one > 0)
    >>> loss.tolist(), aux["clipped"].tolist()
    ([[2.5]], [[1.0]])

  Reference:
    MiniMax 2025, arXiv:2506.13585, eqs. 4-5.
  """
  low, high = _token.constant(low, mask), _token.constant(high, mask)
  ratio = _token.token_ratio(logp, anchor, mask)
  ratio, clipped = _token.bounded(ratio, low, high)
  scale = _token.constant(weight, mask) * jax.lax.stop_gradient(ratio)
  loss = -scale * _token.constant(adv, mask) * _token.masked(logp, mask)
  return loss, {"clipped": jnp.where(mask, clipped, 0.0)}
