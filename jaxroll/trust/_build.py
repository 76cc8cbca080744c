"""How is a Trust filled where a method leaves something open?

anchor = old_logp,  low = 0,  high = inf,  weight = 1;  no gradient
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll import types

# exp is cut off here: e^20 = 4.9e8 is beyond any useful ratio and far from
# float32's overflow at e^88.
LOG_RATIO_BOUND = 20.0


def build(
  old_logp: chex.Array,
  mask: chex.Array,
  *,
  low: float = 0.0,
  high: float = float("inf"),
  weight: chex.Array | None = None,
) -> types.Trust:
  """A Trust with one pair of bounds, weight 1 outside the mask, no gradient."""
  chex.assert_rank([old_logp, mask], 2)
  chex.assert_equal_shape([old_logp, mask])
  ones = jnp.ones(mask.shape, jnp.float32)
  trust = types.Trust(
    anchor=jnp.where(mask, old_logp, 0).astype(jnp.float32),
    low=low * ones,
    high=high * ones,
    weight=ones if weight is None else jnp.where(mask, weight, 1.0),
  )
  return jax.lax.stop_gradient(trust)


def log_gap(
  old_logp: chex.Array, behaviour_logp: chex.Array, mask: chex.Array
) -> chex.Array:
  """old_logp - behaviour_logp in nats, f32[B, T], 0 outside the mask."""
  chex.assert_equal_shape([old_logp, behaviour_logp, mask])
  old_logp = jnp.where(mask, old_logp, 0).astype(jnp.float32)
  behaviour_logp = jnp.where(mask, behaviour_logp, 0).astype(jnp.float32)
  return old_logp - behaviour_logp


def truncated(log_ratio: chex.Array, cap: float) -> chex.Array:
  """min(exp(log_ratio), cap) without overflow."""
  if not cap >= 1:
    raise ValueError(
      f"cap={cap} must be >= 1: below 1 even rows on which sampler and trainer "
      "agree would be scaled; use 2.0, or inf for no truncation"
    )
  ratio = jnp.exp(jnp.minimum(log_ratio, LOG_RATIO_BOUND))
  return jnp.minimum(ratio, cap)


def inside(log_ratio: chex.Array, low: float, high: float) -> chex.Array:
  """exp(log_ratio) if low <= exp(log_ratio) <= high, else 0."""
  if not 0 <= low <= 1 <= high:
    raise ValueError(
      f"low={low}, high={high} must satisfy 0 <= low <= 1 <= high: tokens on "
      "which sampler and trainer agree (ratio 1) have to be kept"
    )
  ratio = jnp.exp(jnp.minimum(log_ratio, LOG_RATIO_BOUND))
  return jnp.where((ratio >= low) & (ratio <= high), ratio, 0.0)
