"""How is a step's budget moved to the prompts of highest reward variance?

In each of T rounds every active prompt gets m rollouts; then the upper share
alpha of the active prompts, by the variance of all their rewards so far, stays
active and m grows by gamma:

  m_0 = m0,  A_0 = all prompts
  A_t+1 = top ceil(alpha |A_t|) of A_t by Var[rewards so far]
  m_t+1 = gamma m_t

With alpha gamma = 1 every round costs P m0 rows. Dropped prompts keep and
train on what they have.

VIGOR (2026), arXiv:2607.22002.
"""

import math
from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.allocate.ties import index_order
from jaxroll.types import Allocator, PromptStats, Tally


def vigor(
  *,
  m0: int | None = 2,
  rounds: int = 4,
  gamma: int = 2,
  alpha: float = 0.5,
  ties: Callable = index_order,
) -> Allocator:
  """Doubled rollouts, round by round, for the half of highest variance.

  Args:
    m0: rollouts of each prompt in the first round, >= 1; None takes the
      largest that fits the budget. With 1 the first refinement sees variances
      of single rewards, all 0, and `ties` decides.
    rounds: T >= 1.
    gamma: growth of the rollouts by prompt and round, >= 1.
    alpha: share of the active prompts that stays active, in (0, 1].
    ties: the order of equal variances, from `allocate.ties`.

  Returns:
    An `Allocator` of T rounds; with the defaults and P a multiple of 8 the
    groups have 2, 6, 14 or 30 rows, 8 on average.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the plan
      does not fit the budget.

  Example:
    >>> vigor(m0=2, rounds=3).rounds(24, 4)
    (8, 8, 8)

  Note:
    A round's rows are shared out as rows // |A_t|, which is m_t where `rows`
    is the plan's. Only scored rows enter the variance (ddof 0), so groups
    whose verifier failed are compared at unequal counts and a group without a
    scored row ranks last, with ties. Empty prompts leave the active set when
    they were given no rows. Random ties are derived here: the source does not
    state them.

  Reference:
    VIGOR, 2026, arXiv:2607.22002.
  """
  if m0 is not None and m0 < 1:
    raise ValueError(f"vigor: m0={m0} must be >= 1, or None to fit the budget")
  if rounds < 1 or gamma < 1:
    raise ValueError(f"vigor: rounds={rounds}, gamma={gamma} must be >= 1")
  if not 0 < alpha <= 1:
    raise ValueError(f"vigor: alpha={alpha} must be in (0, 1]")

  def plan(budget: int, num_prompts: int) -> tuple[int, ...]:
    unit = [n * m for n, m in round_plan(num_prompts, 1, rounds, gamma, alpha)]
    first = max(budget // sum(unit), 1) if m0 is None else m0
    needed = first * sum(unit)
    if needed > budget:
      raise ValueError(
        f"vigor needs {needed} rows for P={num_prompts}, m0={first}, "
        f"rounds={rounds}, gamma={gamma}, alpha={alpha} and has "
        f"budget={budget}: raise the budget or lower m0, rounds or gamma"
      )
    return tuple(first * rows for rows in unit)

  def counts(
    stats: PromptStats, tally: Tally, counts: jax.Array, *, round, rows, key
  ) -> jax.Array:
    chex.assert_equal_shape([stats.alpha, tally.count, counts])
    num_prompts = counts.shape[0]
    sizes = [n for n, _ in round_plan(num_prompts, 1, rounds, gamma, alpha)]
    num = jnp.asarray(sizes, jnp.int32)[round]
    # Rows given, not rows scored: the round before gave rows to its active
    # prompts only, so they have the most, whatever the verifier failed on.
    active = counts == jnp.max(counts)
    variance = numerics.safe_divide(tally.m2, tally.count)
    active = refine(active, variance, num, ties=ties(key, num_prompts))
    return jnp.where(active, jnp.asarray(rows, jnp.int32) // num, 0)

  return Allocator(rounds=plan, counts=counts)


def refine(
  active: jax.Array, variance: jax.Array, num, *, ties: jax.Array
) -> jax.Array:
  """The `num` active prompts of highest variance.

  Args:
    active: bool[P].
    variance: f32[P].
    num: prompts that stay, may be traced.
    ties: f32[P], orders equal variances, larger first, then by place.

  Returns:
    bool[P], a subset of `active` with min(num, |active|) members.

  Example:
    >>> refine(jnp.array([True, True, False]), jnp.array([0.1, 0.2, 0.3]), 1,
    ...        ties=jnp.zeros(3)).tolist()
    [False, True, False]
  """
  rank = numerics.rank_by(active.astype(jnp.int32), variance, ties)
  return active & (rank < num)


def round_plan(
  num_prompts: int, m0: int, rounds: int, gamma: int, alpha: float
) -> list[tuple[int, int]]:
  """Active prompts and rollouts of each of them, by round.

  Args:
    num_prompts: P.
    m0: rollouts of a prompt in the first round.
    rounds: T.
    gamma: growth of the rollouts.
    alpha: share that stays; the active set is rounded up and never empty.

  Returns:
    T pairs (n_t, m_t).

  Example:
    >>> round_plan(5, 2, 3, 2, 0.5)
    [(5, 2), (3, 4), (2, 8)]
  """
  plan = [(num_prompts, m0)]
  for _ in range(rounds - 1):
    active, m = plan[-1]
    # 0.1 * 30 is above 3 in floating point and must not round up to 4.
    plan.append((max(1, math.ceil(alpha * active - 1e-9)), gamma * m))
  return plan


def variance_amplification(
  alpha: float, gamma: float, shape: float, rounds: int
) -> float:
  """Growth of the rollout-weighted reward variance under a Pareto tail.

    eta = sum_{i<T} (gamma alpha^(1-1/k))^i / sum_{i<T} (alpha gamma)^i

  Args:
    alpha: share that stays active.
    gamma: growth of the rollouts.
    shape: k > 1 of the tail of the variance over prompts.
    rounds: T.

  Returns:
    eta >= 1 for alpha <= 1.

  Raises:
    ValueError: where shape <= 1, whose mean variance is infinite.

  Example:
    >>> round(variance_amplification(0.5, 2, 1.5, 4), 4)
    2.2768
  """
  if shape <= 1:
    raise ValueError(f"variance_amplification: shape={shape} must be > 1")
  kept = gamma * alpha ** (1 - 1 / shape)
  spent = alpha * gamma
  return sum(kept**i for i in range(rounds)) / sum(
    spent**i for i in range(rounds)
  )


def speedup(alpha: float, gamma: float, shape: float, rounds: int) -> float:
  """The paper's ratio of times, uniform over VIGOR: eta^(1/3).

  Args and raises: as `variance_amplification`.

  Returns:
    A ratio >= 1 for alpha <= 1.

  Example:
    >>> round(speedup(0.5, 2, 1.5, 4), 4)
    1.3156
  """
  return variance_amplification(alpha, gamma, shape, rounds) ** (1 / 3)
