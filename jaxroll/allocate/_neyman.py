r"""How many rollouts estimate every prompt's mean reward best?

The variance of the mean of n_i rollouts is p_i (1 - p_i) / n_i. At a fixed
total the sum of these variances is least where

  n_i  proportional to  sqrt(p_i (1 - p_i)),

the standard deviation of a prompt's reward, here at the mean of its posterior.

Neyman 1934, "On the two different aspects of the representative method",
Journal of the Royal Statistical Society 97, doi:10.2307/2342192.
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll import apportion, posterior
from jaxroll.types import Allocator, PromptStats


def neyman(*, floor: int = 1, cap: int | None = None) -> Allocator:
  """Rollouts in proportion to the standard deviation of a prompt's reward.

  `n_i = rows sqrt(p_i (1 - p_i)) / sum_j sqrt(p_j (1 - p_j))`, rounded to the
  exact total within `floor <= n_i <= cap`.

  Args:
    floor: least rollouts of a prompt, >= 0.
    cap: most rollouts of a prompt, >= max(floor, 1); None for no bound.

  Returns:
    An `Allocator` of one round that spends min(budget, P cap) rows.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover the floor.

  Example:
    >>> neyman(floor=2, cap=8).rounds(24, 4)
    (24,)

  Note:
    The solve rate is the posterior's mean: a prompt never seen counts with
    its prior's. Floor and cap are not Neyman's: derived here, so that no
    prompt is given up on a belief.

  Reference:
    Neyman 1934, doi:10.2307/2342192.
  """
  if floor < 0:
    raise ValueError(f"neyman: floor={floor} must be >= 0")
  if cap is not None and cap < max(floor, 1):
    raise ValueError(
      f"neyman: cap={cap} must be >= floor={floor} and >= 1, or None for no "
      "bound"
    )

  def rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
    least = max(floor * num_prompts, 1)
    if budget < least:
      raise ValueError(
        f"neyman: budget={budget} < floor*P={floor}*{num_prompts}: raise the "
        "budget or lower floor"
      )
    return (budget if cap is None else min(budget, cap * num_prompts),)

  def counts(stats: PromptStats, *, round, rows, key) -> jax.Array:
    del round, key
    rows = jnp.asarray(rows, jnp.int32)
    bound = rows if cap is None else cap
    weight = deviation(posterior.mean(stats))
    return apportion.fill(weight, rows, floor=floor, cap=bound)

  return Allocator(rounds=rounds, counts=counts)


def deviation(rate: jax.Array) -> jax.Array:
  """Standard deviation of a success: sqrt(p (1 - p)).

  Args:
    rate: f32, solve rates in [0, 1].

  Returns:
    f32 of the same shape in [0, 1/2].

  Example:
    >>> float(deviation(jnp.array(0.5)))
    0.5
  """
  chex.assert_type(rate, float)
  return jnp.sqrt(jnp.maximum(rate * (1 - rate), 0.0))
