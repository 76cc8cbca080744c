"""Which pilots are worth a commit, which come first, and what do they cost?

With m the mean reward of a prompt's pilots:

  low <= m <= 1 - up   kept, committed later
  m > 1 - up           too easy, skipped
  m < low              too hard now, deferred
  m >= solve           solved: never selected again

Pilot-Commit (2026), arXiv:2605.26606.
"""

import jax
import jax.numpy as jnp

from jaxroll import numerics

# Codes of `triage`.
DEFERRED, KEPT, EASY = 0, 1, 2

# Of a mean's rounding error, so that the inclusive bounds are inclusive.
_SLACK = 1e-6


def triage(
  mean: jax.Array, *, low: float = 0.125, up: float = 0.25, solve: float = 1.0
) -> tuple[jax.Array, jax.Array]:
  """Sorts prompts by the mean reward of their pilots.

  Args:
    mean: f32[P] in [0, 1].
    low: least mean that is kept.
    up: 1 - up is the largest mean that is kept.
    solve: least mean that is evicted; above 1 nothing is.

  Returns:
    code i32[P], DEFERRED 0, KEPT 1 or EASY 2; evict bool[P].

  Example:
    >>> code, evict = triage(jnp.array([0.0, 0.5, 1.0]))
    >>> code.tolist(), evict.tolist()
    ([0, 1, 2], [False, False, True])
  """
  hard = mean < low - _SLACK
  easy = mean > 1 - up + _SLACK
  code = jnp.where(easy, EASY, jnp.where(hard, DEFERRED, KEPT))
  return code.astype(jnp.int32), mean >= solve - _SLACK


def commit_order(
  std: jax.Array, step: jax.Array, valid: jax.Array, num: int
) -> jax.Array:
  """Most informative entries first: std descending, newest, lowest index.

  Args:
    std: f32[C], of an entry's pilot rewards.
    step: i32[C], when its pilots were generated.
    valid: bool[C]; entries that are not come last.
    num: entries wanted, <= C.

  Returns:
    i32[num], indices of entries.

  Example:
    >>> commit_order(jnp.array([0.3, 0.5]), jnp.array([1, 1]),
    ...              jnp.array([True, True]), 1).tolist()
    [1]
  """
  rank = numerics.rank_by(valid, std, step)
  return jnp.argsort(rank)[:num].astype(jnp.int32)


def maxvar_counts(n_ones: int, n_zeros: int, m: int) -> tuple[int, int]:
  """Successes and failures of the m pilots of largest reward variance.

  Half of each as far as available: min(floor(m/2), n_ones) successes, then
  failures, then more successes where failures run out.

  Args:
    n_ones: successes available.
    n_zeros: failures available.
    m: pilots wanted.

  Returns:
    (ones, zeros) with ones + zeros = min(m, n_ones + n_zeros).

  Example:
    >>> maxvar_counts(2, 30, 16)
    (2, 14)
  """
  ones = min(m // 2, n_ones)
  zeros = min(m - ones, n_zeros)
  return min(m - zeros, n_ones), zeros


def rollouts_per_update(
  groups: int, keep_rate: float, pilot: int, commit: int
) -> float:
  """Rollouts of an update on `groups` kept groups.

    groups (pilot / keep_rate + commit)

  Filtering after full groups costs groups (pilot + commit) / keep_rate, no
  filter groups (pilot + commit).

  Args:
    groups: kept groups of an update.
    keep_rate: share of the pilot groups that is kept, in (0, 1].
    pilot: rollouts of a new prompt.
    commit: further rollouts of a kept one.

  Returns:
    Expected rollouts.

  Raises:
    ValueError: where keep_rate is out of range.

  Example:
    >>> rollouts_per_update(128, 0.5, 32, 96)
    20480.0
  """
  if not 0 < keep_rate <= 1:
    raise ValueError(
      f"rollouts_per_update: keep_rate={keep_rate} must be in (0, 1]: a rate "
      "of 0 never fills an update"
    )
  return groups * (pilot / keep_rate + commit)
