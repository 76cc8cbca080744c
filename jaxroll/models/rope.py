"""Where does a token stand? Its query and key are turned by its position.

Coordinates i and i + h/2 of a head are one plane, turned by position * f_i
with f_i = theta^(-2i/h) (Su et al. 2021, arXiv:2104.09864); `RopeScaling` says
how the f_i are stretched for long contexts.
"""

import jax.numpy as jnp

from jaxroll import types
from jaxroll.models.config import Config


def rotate(x_BSnh, positions_BS, config: Config):
  """Rotates the halves of each head by the position's angles."""
  freq = frequencies(positions_BS, config)
  angle = positions_BS.astype(jnp.float32)[..., None, None] * freq
  cos, sin = jnp.cos(angle), jnp.sin(angle)
  a, b = jnp.split(x_BSnh.astype(jnp.float32), 2, axis=-1)
  turned = jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
  return turned.astype(x_BSnh.dtype)


def frequencies(positions_BS, config: Config):
  """Angles a position, f32[1 or B, 1, 1, h/2]."""
  half, scaling = config.head_dim // 2, config.rope_scaling
  exponent = -jnp.arange(half, dtype=jnp.float32) / half
  if scaling is not None and scaling.kind == "dynamic":
    base = _stretched_base(positions_BS, config)
    return base[:, None, None, None] ** exponent[None, None, None, :]
  freq_h = config.rope_theta**exponent
  if scaling is not None and scaling.kind == "linear":
    freq_h = freq_h / scaling.factor
  elif scaling is not None:
    # Turns within the trained context: above `high` a frequency stays, below
    # `low` it is divided.
    turns = scaling.context * freq_h / (2 * jnp.pi)
    kept = (turns - scaling.low) / (scaling.high - scaling.low)
    kept = jnp.clip(kept, 0.0, 1.0)
    freq_h = freq_h * (kept + (1 - kept) / scaling.factor)
  return freq_h[None, None, None, :]


def _stretched_base(positions_BS, config):
  """theta * (factor * length / context - (factor - 1))^(h / (h - 2))."""
  scaling, h = config.rope_scaling, config.head_dim
  real = jnp.where(positions_BS < types.EMPTY, positions_BS, -1)
  length = jnp.maximum(jnp.max(real, axis=1) + 1, scaling.context)
  stretch = scaling.factor * length.astype(jnp.float32) / scaling.context
  return config.rope_theta * (stretch - (scaling.factor - 1)) ** (h / (h - 2))
