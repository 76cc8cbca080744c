"""What does a group teach in which all rewards are equal?

Its solve rate is not 0 or 1 for having shown no success or no failure. AERO
takes the posterior mean under a Beta(a0, b0) prior as the baseline there, with
c successes among the group's n rows:

  u = (c + a0) / (n + a0 + b0)
  adv_i = (r_i - u) / sqrt(u (1 - u))                    all rewards equal
  adv_i = (r_i - mean) / (std + eps)                     else, as GRPO

All wrong gives a small negative advantage, all right a small positive one, and
both vanish as n grows.

Paper: AERO, 2026, arXiv:2602.14338.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.advantage._grpo import grpo


def posterior_baseline(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  prior: tuple[float, float] = (1.0, 1.0),
  eps: float = 1e-6,
  ddof: int = 0,
) -> chex.Array:
  """GRPO's advantage, with a posterior mean as baseline of tied groups.

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere;
      in tied groups clipped to [0, 1], a fraction of a success.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read.
    prior: (a0, b0) of the Beta prior, > 0.
    eps: added to the standard deviation of groups that are not tied, >= 0.
    ddof: 0 for the population's standard deviation, 1 for the sample's.

  Returns:
    f32[B], of one sign in a tied group; 0 where not valid.

  Raises:
    ValueError: if `prior` is not positive, or as `grpo`.

  Note:
    The formula of tied groups is derived here: the source names the posterior
    mean as the group's success rate, not what is made of it.

  Example:
    >>> reward, group = jnp.ones(8), jnp.zeros(8, int)
    >>> adv = posterior_baseline(reward, group, num_groups=1,
    ...                          valid=jnp.ones(8, bool))
    >>> round(float(adv[0]), 6)  # u = 9 / 10
    0.333333

  Reference:
    AERO 2026, arXiv:2602.14338 (Bayesian branch).
  """
  if not all(x > 0 for x in prior):
    raise ValueError(f"prior={prior} must be > 0: use (1.0, 1.0) for no bias")
  adv = grpo(
    reward, group, num_groups=num_groups, valid=valid, eps=eps, ddof=ddof
  )
  reward = jnp.where(valid, reward, 0).astype(jnp.float32)
  tied = numerics.group_tied(reward, group, num_groups, valid)
  right = jnp.clip(reward, 0.0, 1.0)
  successes = numerics.group_sum(right, group, num_groups, valid)
  rows = numerics.group_count(group, num_groups, valid).astype(jnp.float32)
  rate = (successes + prior[0]) / (rows + prior[0] + prior[1])
  flat = (right - rate[group]) / jnp.sqrt(rate * (1 - rate))[group]
  return jnp.where(valid, jnp.where(tied[group], flat, adv), 0.0)
