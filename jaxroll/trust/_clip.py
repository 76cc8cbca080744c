"""How far may one token's probability move within an update?

  1 - low <= pi(token) / pi_old(token) <= 1 + high

PPO has low = high; DAPO raises `high` alone ("clip-higher"), so that unlikely
tokens can gain probability and entropy does not collapse.

Papers: Schulman et al. 2017, "Proximal Policy Optimization Algorithms",
arXiv:1707.06347; Yu et al. 2025, "DAPO: An Open-Source LLM Reinforcement
Learning System at Scale", arXiv:2503.14476.
"""

import chex

from jaxroll import types
from jaxroll.trust import _build


def clip(
  old_logp: chex.Array,
  mask: chex.Array,
  *,
  low: float = 0.2,
  high: float = 0.2,
) -> types.Trust:
  """Bounds of the ratio around the policy before the update.

  `anchor = old_logp,  bounds = [1 - low, 1 + high],  weight = 1`

  Args:
    old_logp: f32[B, T], nats, the trainer's, before the update.
    mask: bool[B, T], trained tokens.
    low: distance below 1, in [0, 1]. PPO 0.2, DAPO 0.2, GSPO 3e-4.
    high: distance above 1, >= 0. PPO 0.2, DAPO 0.28, GSPO 4e-4.

  Returns:
    Trust of f32[B, T].

  Raises:
    ValueError: if `low` or `high` is out of its range.

  Example:
    >>> import jax.numpy as jnp
    >>> old_logp, mask = jnp.full((1, 1), -1.0), jnp.ones((1, 1), bool)
    >>> trust = clip(old_logp, mask, low=0.25, high=0.5)
    >>> float(trust.low[0, 0]), float(trust.high[0, 0])
    (0.75, 1.5)

  Reference:
    Schulman et al. 2017, arXiv:1707.06347, eq. 7; Yu et al. 2025,
    arXiv:2503.14476, section 3.1.
  """
  if not 0 <= low <= 1:
    raise ValueError(
      f"low={low} must lie in [0, 1]: the lower bound of the ratio is 1 - low"
    )
  if high < 0:
    raise ValueError(
      f"high={high} must be >= 0: the upper bound of the ratio is 1 + high"
    )
  return _build.build(old_logp, mask, low=1.0 - low, high=1.0 + high)
