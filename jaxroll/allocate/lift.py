"""How far is the cumulative advantage of a hard prompt to be lifted?

The absolute advantages of n rollouts at solve rate p sum to n S(p), which is
largest at p = 1/2 and vanishes for hard prompts. More rollouts, n + d, lift it
to a target share t(p) of the peak:

  (n + d) S(p) = t(p) n S(1/2)

Sizes S and targets t are functions f32 -> f32 of the solve rate.

DARS: Yang et al. (2025), arXiv:2508.13755.
"""

import jax
import jax.numpy as jnp


def plain(rate: jax.Array) -> jax.Array:
  """Mean |r - mean|, without standardisation: S = 2 p (1 - p).

  Args:
    rate: f32, p in [0, 1].

  Returns:
    f32 in [0, 1/2].

  Example:
    >>> float(plain(jnp.float32(0.5)))
    0.5
  """
  return 2 * rate * (1 - rate)


def standardised(rate: jax.Array) -> jax.Array:
  """Mean |r - mean| / std: S = 2 sqrt(p (1 - p)).

  Args:
    rate: f32, p in [0, 1].

  Returns:
    f32 in [0, 1].

  Example:
    >>> float(standardised(jnp.float32(0.5)))
    1.0
  """
  return 2 * jnp.sqrt(rate * (1 - rate))


def equal_treatment(rate: jax.Array) -> jax.Array:
  """Every hard prompt is lifted to the peak: t = 1.

  Args:
    rate: f32, p in [0, 1].

  Returns:
    f32 of the same shape.

  Example:
    >>> float(equal_treatment(jnp.float32(0.25)))
    1.0
  """
  return jnp.ones_like(rate)


def hardness_weighted(rate: jax.Array) -> jax.Array:
  """The harder, the further, up to twice the peak: t = 2 (1 - p).

  Args:
    rate: f32, p in [0, 1].

  Returns:
    f32 in [0, 2].

  Example:
    >>> float(hardness_weighted(jnp.float32(0.25)))
    1.5
  """
  return 2 * (1 - rate)
