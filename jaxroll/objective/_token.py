"""How do columns reach a token's loss without leaking from masked tokens?

Every input is replaced where the mask is False before anything is computed
from it: a `where` after the fact would keep the value but not the gradient
(0 * NaN).
"""

import chex
import jax
import jax.numpy as jnp

# exp(20) = 4.9e8 is beyond any useful ratio; float32 overflows at exp(88).
LOG_RATIO_BOUND = 20.0


def masked(x: chex.Array, mask: chex.Array) -> chex.Array:
  """x as f32[B, T], 0 where the mask is False."""
  chex.assert_rank([x, mask], 2)
  chex.assert_equal_shape([x, mask])
  return jnp.where(mask, x, 0).astype(jnp.float32)


def constant(x: chex.Array, mask: chex.Array) -> chex.Array:
  """x of shape [B] or [B, T] as f32[B, T], masked and without gradient."""
  chex.assert_rank(x, {1, 2})
  by_row = x[:, None] if x.ndim == 1 else x
  by_token = jnp.broadcast_to(by_row, mask.shape)
  return jax.lax.stop_gradient(masked(by_token, mask))


def exp_bounded(log_ratio: chex.Array) -> chex.Array:
  """exp(log_ratio), the exponent cut off at +-LOG_RATIO_BOUND."""
  return jnp.exp(jnp.clip(log_ratio, -LOG_RATIO_BOUND, LOG_RATIO_BOUND))


def token_ratio(
  logp: chex.Array, anchor: chex.Array, mask: chex.Array
) -> chex.Array:
  """exp(logp - anchor), 1 outside the mask."""
  return exp_bounded(masked(logp, mask) - constant(anchor, mask))


def one_sided(
  adv: chex.Array, low: chex.Array, high: chex.Array, dual_clip: float | None
) -> tuple[chex.Array, chex.Array]:
  """Bounds of the ratio that PPO's minimum leaves active, by sign of A.

    min(ratio A, clip(ratio, low, high) A) = A min(ratio, high)  if A >= 0
                                           = A max(ratio, low)   if A < 0

  and dual clipping, max(that, c A) for A < 0, adds min(., c).

  Args:
    adv: f32[B, T].
    low, high: f32[B, T] or f32[B, 1].
    dual_clip: c > 1, or None.

  Returns:
    low, high: f32[B, T], 0 and inf where a bound does not act.

  Raises:
    ValueError: if `dual_clip` is not greater than 1.
  """
  if dual_clip is not None and not dual_clip > 1:
    raise ValueError(
      f"dual_clip={dual_clip} must be > 1: at most 1 it removes the gradient "
      "of rows that are still on-policy; use 3.0, or None for none"
    )
  ceiling = jnp.inf if dual_clip is None else dual_clip
  floor = jnp.where(adv < 0, low, 0.0)
  return floor, jnp.where(adv < 0, ceiling, jnp.where(adv > 0, high, jnp.inf))


def bounded(
  ratio: chex.Array, low: chex.Array, high: chex.Array
) -> tuple[chex.Array, chex.Array]:
  """clip(ratio, low, high) and where it acts; no gradient there.

  A ratio exactly on its bound keeps its whole gradient, where `jnp.clip`
  halves it: so the gradient at ratio 1 is the policy gradient for any bounds.

  Returns:
    ratio, and f32 1 where it was outside the bounds, else 0.
  """
  outside = (ratio < low) | (ratio > high)
  limit = jax.lax.stop_gradient(jnp.clip(ratio, low, high))
  return jnp.where(outside, limit, ratio), outside.astype(jnp.float32)
