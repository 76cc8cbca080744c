"""Where do further rollouts most likely turn a group into a mixed one?

A group of n rollouts at solve rate p has both outcomes with probability
M(p, n) = 1 - p^n - (1 - p)^n. In two stages:

  roots   n0 rollouts for the k prompts of highest M(p, n0), before any is seen
  more    the rest of the budget to those prompts, one rollout after the other
          where M grows most:  p^h (1 - p) + (1 - p)^h p  after h rollouts

with p the mean of the prompt's posterior, in the second stage with what the
first has shown. M is concave from h = 1 on, so that this greedy rule is best.

TRACE (2026), arXiv:2606.11119.
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll import apportion, numerics, posterior
from jaxroll.allocate import beliefs
from jaxroll.types import Allocator, PromptStats, Tally


def trace(*, n0: int = 4, share: float = 0.5, cap: int = 4) -> Allocator:
  """Roots by their chance of a mixed group, then greedily more of them.

  The first stage takes `share` of the budget:

    k = min(P, floor(share budget / n0)) prompts of n0 rollouts each

  Args:
    n0: first rollouts of a prompt that is taken, >= 1. With 1 no group can
      be mixed and the first k prompts are taken.
    share: of the budget for the first stage, in (0, 1].
    cap: most rollouts that the second stage adds to a prompt, >= 1.

  Returns:
    An `Allocator` of at most two rounds. Prompts that are not taken get no
    rollouts; what cap forbids is not spent.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the first
      stage cannot take a single prompt.

  Example:
    >>> trace(n0=4, share=0.5, cap=8).rounds(32, 8)  # 4 of 8 prompts
    (16, 16)

  Note:
    The paper's anchors are prompts and the prefixes after each turn; here
    they are the prompts alone. Its predictor is learned from features, here
    it is the prompt's posterior. Defaults and the greedy rule of the second
    stage are derived here: the source does not state them.

  Reference:
    TRACE, 2026, arXiv:2606.11119.
  """
  if n0 < 1 or cap < 1:
    raise ValueError(f"trace: n0={n0}, cap={cap} must be >= 1")
  if not 0 < share <= 1:
    raise ValueError(f"trace: share={share} must be in (0, 1]")

  def rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
    # 0.7 * 30 is below 21 in floating point and must not become 20.
    num = min(num_prompts, int(share * budget + 1e-9) // n0)
    if num < 1:
      raise ValueError(
        f"trace: budget={budget} with share={share} has no n0={n0} rollouts "
        "for one prompt: raise the budget or share, or lower n0"
      )
    more = min(budget - num * n0, num * cap)
    return (num * n0, more) if more else (num * n0,)

  def counts(
    stats: PromptStats, tally: Tally, counts: jax.Array, *, round, rows, key
  ) -> jax.Array:
    del key
    chex.assert_equal_shape([stats.alpha, tally.count, counts])
    rows = jnp.asarray(rows, jnp.int32)
    roots = select_roots(posterior.mean(stats), rows // n0, n0)
    more = add(beliefs.rate(stats, tally), counts, rows, cap)
    return jnp.where(round == 0, jnp.where(roots, n0, 0), more)

  return Allocator(rounds=rounds, counts=counts)


def minority(rate: jax.Array) -> jax.Array:
  """The chance of the rarer outcome, in units of 2^-20.

  M and its growth are the same at p and at 1 - p: such prompts tie exactly,
  whatever the rounding of p.

  Args:
    rate: f32[P] in [0, 1].

  Returns:
    f32[P] in [0, 1/2].

  Example:
    >>> minority(jnp.array([0.25, 0.75])).tolist()
    [0.25, 0.25]
  """
  rare = jnp.minimum(rate, 1 - rate).astype(jnp.float32)
  return jnp.round(rare * 2**20) / 2**20


def select_roots(rate: jax.Array, num, n0: int) -> jax.Array:
  """The prompts that n0 rollouts most likely find mixed.

  Args:
    rate: f32[P], predicted solve rates in [0, 1].
    num: k, prompts that are taken, may be traced.
    n0: rollouts of each.

  Returns:
    bool[P], the `num` prompts of highest M(p, n0), the first of equals.

  Example:
    >>> rate = jnp.array([0.0, 0.5, 0.9, 0.2, 1.0])
    >>> select_roots(rate, 2, 4).tolist()
    [False, True, False, True, False]
  """
  mixed = apportion.p_mixed(minority(rate), jnp.int32(n0))
  return numerics.rank_by(mixed) < num


def add(rate: jax.Array, have: jax.Array, budget, cap: int) -> jax.Array:
  """Further rollouts of visited prompts, each where a mixed group gains most.

  Args:
    rate: f32[P], predicted solve rates in [0, 1].
    have: i32[P], rollouts so far; a prompt without any gets none.
    budget: rollouts to give, may be traced.
    cap: most rollouts that are added to a prompt.

  Returns:
    i32[P] in [0, cap]; the sum is min(budget, cap * visited prompts).

  Example:
    >>> one_each = jnp.ones(3, jnp.int32)
    >>> add(jnp.array([0.5, 0.125, 0.0]), one_each, 5, 4).tolist()
    [3, 2, 0]
  """
  rare = minority(rate)
  gains = apportion.gain_table(
    lambda have: apportion.mixed_gain(rare, have), have, cap
  )
  return apportion.greedy(gains, budget, where=have > 0)
