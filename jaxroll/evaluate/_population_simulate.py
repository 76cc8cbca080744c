"""What does training on a population look like, without generating tokens?

A step selects prompts, plays an allocator's rounds on Bernoulli rewards,
updates beliefs and moves the policy by the z-scored REINFORCE gradient of its
groups: what `train.make_step` does for the same population, in law. It costs a
few passes over the N prompts, so that a million of them take well under a
second.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from jaxroll import posterior, types
from jaxroll.evaluate import _population_measure as measure
from jaxroll.evaluate import _population_spend as spending
from jaxroll.evaluate._population_pair import Population

_SELECT, _ROUNDS, _MEMORY = range(3)


class State(NamedTuple):
  """What a simulated run carries.

  Attributes:
    params: the policy's. opt_state: the optimiser's. stats: PromptStats[N].
    memory: of a selector that is a `types.Method`, else None.
    step: i32[], steps done. key: the run's.
  """

  params: Any
  opt_state: Any
  stats: types.PromptStats
  memory: Any
  step: chex.Array
  key: chex.Array


class Report(NamedTuple):
  """What a simulated step shows.

  Attributes:
    ids: i32[P], -1 for none. spent: `Spent` [P].
    rollouts: i32[], spent. mixed_share, zero_variance_share: f32[].
    success: f32[], mean solve rate of the training prompts after the step.
    held_out: f32[], of the held-out ones, NaN without any.
  """

  ids: chex.Array
  spent: spending.Spent
  rollouts: chex.Array
  mixed_share: chex.Array
  zero_variance_share: chex.Array
  success: chex.Array
  held_out: chex.Array


class Simulation(NamedTuple):
  """A run without tokens.

  Attributes:
    init: (key) -> State.
    step: (state) -> State, Report. Pure; may be jitted, scanned and mapped
      over seeds with `vmap` or `lax.map`.
  """

  init: Callable
  step: Callable


def simulate(
  population: Population,
  select: Callable | types.Method,
  allocator: types.Allocator,
  optimiser: optax.GradientTransformation,
  *,
  prompts: int,
  budget: int,
  observe: Callable = posterior.observe,
) -> Simulation:
  """A run of a selector and an allocator on a population.

  Args:
    population: any of `population`.
    select: (stats, pool, *, num, key) -> ids, a member of `select`, with a
      memory or without.
    allocator: a member of `allocate` that plays whole rounds.
    optimiser: optax transformation. Compare methods at equal step norms or at
      learning rates tuned for each of them.
    prompts: P of a step.
    budget: rows of a step.
    observe: posterior update, `posterior.observe` with its decays bound.

  Returns:
    A `Simulation`.

  Raises:
    ValueError: where prompts exceed the pool or the budget is infeasible.

  Example:
    >>> from jaxroll import allocate, select
    >>> from jaxroll.evaluate import population
    >>> run = simulate(
    ...   population.logistic(64), select.random, allocate.uniform(),
    ...   optax.sgd(0.1), prompts=8, budget=32)
    >>> _, report = jax.jit(run.step)(run.init(jax.random.key(0)))
    >>> int(report.rollouts)
    32
  """
  task = population.task
  num_train, num_ids = len(task.train_pool), len(task.grade)
  if not 1 <= prompts <= num_train:
    raise ValueError(
      f"prompts={prompts}: must be in 1 ... {num_train}, the training prompts"
    )
  allocator.rounds(budget, prompts)
  remembers = isinstance(select, types.Method)
  sizes = types.Sizes(
    num_ids, prompts, budget, 1, 1, num_sources=len(task.sources)
  )

  def init(key) -> State:
    params = population.policy.init(key)
    own = jax.random.fold_in(key, 2**31 - 1)
    return State(
      params=params,
      opt_state=optimiser.init(params),
      stats=posterior.init(num_ids),
      memory=select.init(sizes, key=own) if remembers else None,
      step=jnp.int32(0),
      key=key,
    )

  def choose(state, key):
    pool = jnp.asarray(task.train_pool)
    z = population.logit(state.params, pool)
    columns = {
      "state": state.memory,
      "stats": state.stats,
      "pool": pool,
      "feature": jnp.asarray(task.feature),
      # Of a coin of probability sigmoid(z); dropped where nobody asks.
      "prompt_entropy": jax.nn.softplus(z) - z * jax.nn.sigmoid(z),
    }
    chosen = spending.ask(
      select.apply if remembers else select,
      columns,
      num=prompts,
      step=state.step,
      key=key,
    )
    return chosen if remembers else (chosen, None)

  def remember(memory, ids, rows, stats, step, key):
    reward, group, valid = rows
    columns = {
      "state": memory,
      "stats": stats,
      "ids": ids,
      "source": jnp.asarray(task.source)[jnp.maximum(ids, 0)],
      "feature": jnp.asarray(task.feature),
      "reward": reward,
      "group": group,
      "valid": valid,
    }
    return spending.ask(
      select.update, columns, num_groups=prompts, step=step, key=key
    )

  def step(state: State) -> tuple[State, Report]:
    key = jax.random.fold_in(state.key, state.step)
    ids, memory = choose(state, jax.random.fold_in(key, _SELECT))
    known = jnp.maximum(ids, 0)
    before = jax.tree.map(lambda x: x[known], state.stats)
    spent = spending.spend(
      allocator,
      jax.nn.sigmoid(population.logit(state.params, known)),
      before,
      budget=budget,
      key=jax.random.fold_in(key, _ROUNDS),
      present=ids >= 0,
      columns={
        "source": jnp.asarray(task.source)[known],
        "waiting": jnp.zeros((prompts,), bool),
      },
    )
    reward, group, valid = rows = spending.rows(spent, budget)
    stats = observe(
      state.stats,
      ids,
      reward,
      jnp.ones_like(group),
      group,
      valid,
      step=state.step,
    )
    if remembers:
      own = jax.random.fold_in(key, _MEMORY)
      memory = remember(memory, ids, rows, before, state.step, own)
    ascent = measure.policy_gradient(population, state.params, ids, spent)
    # optax mixes integer counts with floats, which strict promotion forbids.
    with jax.numpy_dtype_promotion("standard"):
      updates, opt_state = optimiser.update(
        jax.tree.map(jnp.negative, ascent), state.opt_state, state.params
      )
      params = optax.apply_updates(state.params, updates)
    rate = population.solve_rate(params)
    report = Report(
      ids=ids,
      spent=spent,
      rollouts=jnp.sum(spent.count),
      mixed_share=measure.mixed_share(spent),
      zero_variance_share=measure.zero_variance_share(spent),
      success=jnp.mean(rate[:num_train]),
      held_out=jnp.mean(rate[num_train:]) if num_train < num_ids else jnp.nan,
    )
    return State(
      params, opt_state, stats, memory, state.step + 1, state.key
    ), report

  return Simulation(init, step)
