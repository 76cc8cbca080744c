r"""How many rollouts does a task still need once it is mostly solved?

  n = n_max                                                 where SR <= tau
  n = clip(ceil(n_max (1 - SR) / (1 - tau)), n_min, n_max)  where SR > tau

A task keeps the full count until its tracked success rate SR passes tau, and
from there loses rollouts as its failures get rare.

DART (2025), arXiv:2509.23866.
"""

import jax
import jax.numpy as jnp

from jaxroll import posterior
from jaxroll.types import Allocator, PromptStats


def dart(
  *, n_max: int = 8, n_min: int = 2, threshold: float = 0.6
) -> Allocator:
  """Fewer rollouts for the prompts whose success rate is above a threshold.

  Args:
    n_max: rollouts of a prompt that is not solved yet, >= n_min.
    n_min: rollouts of a prompt that is always solved, >= 1.
    threshold: tau, in [0, 1): success rate from which the count falls.

  Returns:
    An `Allocator` of one round with room for n_max rollouts of each prompt;
    what solved prompts do not need is saved, not given to others.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover P n_max.

  Example:
    >>> dart().rounds(32, 4)
    (32,)

  Note:
    The paper says where the count begins to fall, and not how: the line to 0
    at SR = 1 is derived here. SR is the mean of the posterior, whose decay is
    the window of the average.

  Reference:
    DART, 2025, arXiv:2509.23866.
  """
  if not 1 <= n_min <= n_max:
    raise ValueError(
      f"dart: n_min={n_min}, n_max={n_max} must have 1 <= n_min <= n_max"
    )
  if not 0 <= threshold < 1:
    raise ValueError(f"dart: threshold={threshold} must be in [0, 1)")

  def rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
    if budget < n_max * num_prompts:
      raise ValueError(
        f"dart: budget={budget} < n_max*P={n_max}*{num_prompts}: raise the "
        "budget or lower n_max"
      )
    return (n_max * num_prompts,)

  def counts(stats: PromptStats, *, round, rows, key) -> jax.Array:
    del round, key
    wanted = rollout_count(posterior.mean(stats), n_max, n_min, threshold)
    # Never more than `rows`, should the caller plan fewer than `rounds` does.
    before = jnp.cumsum(wanted) - wanted
    return jnp.clip(jnp.asarray(rows, jnp.int32) - before, 0, wanted)

  return Allocator(rounds=rounds, counts=counts)


def rollout_count(
  success_rate: jax.Array, n_max: int, n_min: int, threshold: float
) -> jax.Array:
  """DART's rollouts at a success rate.

  Args:
    success_rate: f32[P] in [0, 1].
    n_max, n_min, threshold: see `dart`.

  Returns:
    i32[P] in [n_min, n_max].

  Example:
    >>> rollout_count(jnp.array([0.0, 0.7, 0.8]), 8, 2, 0.6).tolist()
    [8, 6, 4]
  """
  # 8 * (1 - 0.7) / (1 - 0.6) is 6.0000005 in float32 and must not become 7.
  line = n_max * (1 - success_rate) / (1 - threshold) - 1e-4
  falling = jnp.clip(jnp.ceil(line).astype(jnp.int32), n_min, n_max)
  return jnp.where(success_rate > threshold, falling, n_max)
