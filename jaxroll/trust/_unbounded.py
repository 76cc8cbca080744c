"""What if every update is made on fresh rows?

Then the ratio is 1 and needs no bounds:

  anchor = old_logp,  bounds = [0, inf],  weight = 1
"""

import chex

from jaxroll import types
from jaxroll.trust import _build


def unbounded(old_logp: chex.Array, mask: chex.Array) -> types.Trust:
  """No bounds and no weight: the ratio is the exact importance ratio.

  `anchor = old_logp,  bounds = [0, inf],  weight = 1`

  Args:
    old_logp: f32[B, T], nats, the trainer's, before the update.
    mask: bool[B, T], trained tokens.

  Returns:
    Trust of f32[B, T]; `high` is inf.

  Example:
    >>> import jax.numpy as jnp
    >>> trust = unbounded(jnp.full((1, 1), -1.0), jnp.ones((1, 1), bool))
    >>> float(trust.low[0, 0]), float(trust.high[0, 0])
    (0.0, inf)
  """
  return _build.build(old_logp, mask)
