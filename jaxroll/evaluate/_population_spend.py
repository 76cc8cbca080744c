"""What does an allocator make of one step where solve rates are known?

Its rounds are played on Bernoulli rewards of the given rates; nothing is
generated and nobody learns, so that hundreds of draws cost milliseconds under
`vmap`.
"""

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxroll import numerics, posterior, types


class Spent(NamedTuple):
  """What became of a step's rollouts, by prompt; rewards are 0 or 1.

  Attributes:
    count: i32[P], rollouts. success: i32[P], those of reward 1.
  """

  count: chex.Array
  success: chex.Array


def spend(
  allocator: types.Allocator,
  rate,
  stats: types.PromptStats,
  *,
  budget: int,
  key,
  present=None,
  columns: Mapping[str, Any] | None = None,
) -> Spent:
  """Plays the rounds of one step.

  Args:
    allocator: any of `allocate`, or `population.oracle`.
    rate: f32[P], true solve rates.
    stats: PromptStats[P] of the step's prompts before it.
    budget: rows of the step, static.
    key: PRNG key of the rewards and of the allocator.
    present: bool[P], False for empty prompts, which get no rows; None: all.
    columns: further columns that the allocator names, such as `waiting` or
      `source`.

  Returns:
    `Spent` [P].

  Raises:
    ValueError: where the budget is infeasible, or the allocator plans the
      single rows of free slots, which has no meaning without a decode loop.

  Example:
    >>> from jaxroll import allocate
    >>> rate = jnp.array([0.0, 1.0])
    >>> spent = spend(allocate.uniform(), rate, posterior.init(2), budget=6,
    ...               key=jax.random.key(0))
    >>> spent.count.tolist(), spent.success.tolist()
    ([3, 3], [0, 3])
  """
  if getattr(allocator, "gain", None) is not None:
    raise ValueError(
      "spend plays whole rounds and the allocator has a gain for single rows: "
      "give allocator._replace(gain=None) to play its rounds"
    )
  chex.assert_rank(rate, 1)
  num_prompts = rate.shape[0]
  rounds = tuple(allocator.rounds(budget, num_prompts))
  width = max(rounds)

  def play(tally, number):
    own = jax.random.fold_in(key, number)
    known = dict(columns or {}) | {
      "stats": stats,
      "tally": tally,
      "counts": tally.count,
    }
    new = ask(
      allocator.counts,
      known,
      round=number,
      rows=jnp.asarray(rounds, jnp.int32)[number],
      key=jax.random.fold_in(own, 0),
    )
    if present is not None:
      new = jnp.where(present, new, 0)
    group, _, valid = numerics.expand_counts(new, width)
    draws = jax.random.uniform(jax.random.fold_in(own, 1), (width,))
    reward = (draws < rate[group]).astype(jnp.float32)
    return posterior.tally_add(tally, reward, group, valid), None

  tally, _ = jax.lax.scan(
    play,
    posterior.tally_init(num_prompts),
    jnp.arange(len(rounds), dtype=jnp.int32),
  )
  return Spent(tally.count, tally.success.astype(jnp.int32))


def gather(reward, group, where, *, num_groups: int) -> Spent:
  """The rollouts of a real step by prompt.

  Args:
    reward: f32[B], 1 for success; anything above 1/2 counts as one.
    group: i32[B].
    where: bool[B], rows that were scored.
    num_groups: P, static.

  Returns:
    `Spent` [P].

  Example:
    >>> gather(jnp.array([1.0, 0.0]), jnp.array([1, 1]),
    ...        jnp.array([True, True]), num_groups=2).success.tolist()
    [0, 1]
  """
  return Spent(
    numerics.group_count(group, num_groups, where),
    numerics.group_count(group, num_groups, where & (reward > 0.5)),
  )


def rows(spent: Spent, number: int):
  """The rollouts again, one row each: what `posterior.observe` takes.

  Args:
    spent: `Spent` [P].
    number: B >= sum(count), static.

  Returns:
    reward f32[B], group i32[B], valid bool[B]; a group's successes first.

  Example:
    >>> reward, group, valid = rows(Spent(jnp.array([2]), jnp.array([1])), 3)
    >>> reward.tolist(), valid.tolist()
    ([1.0, 0.0, 0.0], [True, True, False])
  """
  group, rank, valid = numerics.expand_counts(spent.count, number)
  right = valid & (rank < spent.success[group])
  return right.astype(jnp.float32), group, valid


def ask(fn, columns: Mapping[str, Any], **specials):
  """Calls a function with what it names of the columns and specials.

  A default is a hyper-parameter: a special replaces it, a column does not.
  """
  named = inspect.signature(fn).parameters.values()
  own = {p.name for p in named if p.default is not p.empty}
  known = {n: x for n, x in columns.items() if n not in own} | specials
  return fn(**{p.name: known[p.name] for p in named if p.name in known})
