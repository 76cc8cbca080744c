"""What would an allocator do that knew every solve rate?

  maximise sum_i P(group i is mixed | p_i, n_i) over n with sum n = budget

The gain of the n-th rollout is p^(n-1) (1 - p) + (1 - p)^(n-1) p. It is 0 for
the first and 2 p (1 - p) for the second; with both counted as p (1 - p), their
mean, gains never rise and taking the largest one by one is optimal up to a
last single rollout.
"""

import jax
import jax.numpy as jnp

from jaxroll import apportion, posterior, types
from jaxroll.evaluate._population_measure import mixed
from jaxroll.evaluate._population_spend import Spent

# Rollouts after which `known` stats forget nothing that a step could see.
_CERTAIN = 1e6


def known(rate) -> types.PromptStats:
  """Beliefs of somebody who knows: what `oracle` has to be given.

  Args:
    rate: f32[P], true solve rates.

  Returns:
    PromptStats [P] whose posterior means are these rates.

  Example:
    >>> posterior.mean(known(jnp.array([0.25])))
    Array([0.25], dtype=float32)
  """
  stats = posterior.init(rate.shape[0])
  return stats.replace(alpha=_CERTAIN * rate, beta=_CERTAIN * (1 - rate))


def oracle(*, cap: int = 64) -> types.Allocator:
  """The greedy allocator by the true gain in groups of mixed outcome.

  It takes the posterior mean for the truth: give it `known` stats.

  Args:
    cap: most rollouts of a prompt, >= 2.

  Returns:
    An `Allocator` of one round; where every prompt has `cap` rollouts the
    rest of the budget is left.

  Raises:
    ValueError: for a cap below 2.

  Example:
    >>> from jaxroll.evaluate import population
    >>> spent = population.spend(
    ...   oracle(), jnp.zeros(2), known(jnp.array([0.5, 0.0])), budget=4,
    ...   key=jax.random.key(0))
    >>> spent.count.tolist()
    [4, 0]

  Note:
    It plans before the step. An allocator that works in rounds can stop at
    groups that are mixed already, and may do better.
  """
  if cap < 2:
    raise ValueError(f"cap={cap}: must be at least 2")

  def counts(stats, *, round, rows, key):
    del round, key
    return best_counts(posterior.mean(stats), rows, cap=cap)

  return types.Allocator(rounds=lambda budget, _: (budget,), counts=counts)


def best_counts(rate, budget, *, cap: int = 64) -> jax.Array:
  """Rollouts by prompt that make most groups mixed, on average.

  Args:
    rate: f32[P], true solve rates.
    budget: i32[], may be traced.
    cap: most rollouts of a prompt, static.

  Returns:
    i32[P], sum min(budget, cap P).

  Example:
    >>> best_counts(jnp.array([0.5, 0.9]), 6).tolist()
    [4, 2]
  """
  have = jnp.arange(cap, dtype=jnp.int32)[None, :]
  # The third gain is p (1 - p) again: p^2 (1 - p) + (1 - p)^2 p.
  first = (rate * (1 - rate))[:, None]
  gains = jnp.where(have < 3, first, apportion.mixed_gain(rate[:, None], have))
  return apportion.greedy(gains, budget)


def regret(spent: Spent, rate, *, cap: int = 64) -> jax.Array:
  """Mixed groups that the oracle expects of as many rollouts, minus these.

  Args:
    spent: `Spent` [P].
    rate: f32[P], true solve rates.
    cap: most rollouts of a prompt, static.

  Returns:
    f32[], in groups; its mean over draws is at least 0 for allocators that
    plan before the step, see the note of `oracle`.

  Example:
    >>> nothing = Spent(jnp.array([0, 2]), jnp.array([0, 0]))
    >>> float(regret(nothing, jnp.array([0.5, 0.0])))  # 1 - 2 (1/2)^2
    0.5
  """
  best = best_counts(rate, jnp.sum(spent.count), cap=cap)
  expected = jnp.sum(apportion.p_mixed(rate, best))
  return expected - jnp.sum(mixed(spent), dtype=jnp.float32)
