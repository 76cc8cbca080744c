"""Which prompts does a step take, and which rows does a round generate?

  begin      who is resumed, which prompts are selected      -> Draft
  generate   one round: counts, request, rollouts            -> rows, Draft

Both work on a `Draft`, the step's own record, and read the state as it was
before the step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import numerics, posterior, recipe, rollout, types
from jaxroll.train import methods as methods_lib
from jaxroll.train import prompts as prompts_lib

# What a step's random numbers are for.
SELECT, ALLOCATE, ROWS, UPDATE, METHODS, MIXTURE = range(6)


class Settings(NamedTuple):
  """What may change between steps without compiling anything.

  Attributes:
    sampler: rollout.Sampler. stops: rollout.Stops.
    limit: i32[], most tokens after a context, <= T.
  """

  sampler: rollout.Sampler
  stops: rollout.Stops
  limit: chex.Array


class Draft(NamedTuple):
  """A step in the making: B = Q carried rows, then the budget's rows."""

  prompts: types.Prompts
  contexts: types.Contexts
  waiting: chex.Array  # bool[P]
  counts: chex.Array  # i32[P], rows allocated so far
  tally: types.Tally
  rollouts: types.Rollouts
  outcome: types.Outcome
  methods: dict[str, Any]
  decode_steps: chex.Array  # i32[rounds]
  slot_steps: chex.Array  # i32[]


def make_begin(
  rules: recipe.Recipe,
  task: types.Task,
  policy: types.Policy,
  sizes: types.Sizes,
  *,
  rounds: tuple,
  micro_rows: int,
  mesh: jax.sharding.Mesh | None,
) -> Callable:
  """The first part of a step, (state, data) -> Draft.

  Args:
    rules, task, policy, sizes, mesh: as for `train.make_step`.
    rounds: rows of each round, static.
    micro_rows: prompts of one forward pass, where some function asks for
      `prompt_entropy`.

  Returns:
    A function.
  """
  groups_waiting, carried = carried_rows(rules, sizes)
  source = prompts_lib.source(task)
  constants = {}
  if any(recipe.asks(fn, "feature") for fn in rules.select):
    constants["feature"] = jnp.asarray(prompts_lib.feature(task))

  def begin(state: types.TrainState, data) -> Draft:
    key = jax.random.fold_in(state.key, state.step)
    methods = dict(state.methods)
    blocked = jnp.zeros((sizes.num_ids,), bool)
    rows = rollout.empty(carried + sizes.rows, sizes.response_length)
    outcome = types.Outcome(
      reward=jnp.zeros(rows.group.shape, jnp.float32),
      status=jnp.full(rows.group.shape, types.ABORTED, jnp.int32),
    )
    resumed = jnp.full((groups_waiting,), -1, jnp.int32)
    if rules.replay is not None:
      resumed, old_rows, old_outcome, methods["replay"] = rules.replay.resume(
        methods["replay"], step=state.step
      )
      blocked = rules.replay.blocked(methods["replay"])
      at = jnp.arange(carried, dtype=jnp.int32)
      rows, outcome = rollout.place(
        (rows, outcome), (old_rows, old_outcome), at, old_rows.valid
      )
    pool = jnp.asarray(task.train_pool, jnp.int32)
    of_step = {"num": sizes.prompts, "blocked": blocked, "step": state.step}
    quota, methods = methods_lib.mix(
      rules,
      methods,
      jnp.asarray(source),
      pool,
      key=jax.random.fold_in(key, MIXTURE),
      **of_step,
    )
    fresh, methods = methods_lib.select(
      rules,
      pool,
      {"stats": state.stats} | constants,
      methods,
      quota=quota,
      key=jax.random.fold_in(key, SELECT),
      entropy=lambda ids: prompts_lib.entropy(
        policy,
        state.learners["policy"].params,
        task.prompts(data, ids)[1],
        micro_rows=micro_rows,
        mesh=mesh,
      ),
      **of_step,
    )
    ids, waiting = _fill_slots(resumed, fresh)
    prompts, contexts = task.prompts(data, ids)
    return Draft(
      prompts=prompts,
      contexts=contexts,
      waiting=waiting,
      counts=jnp.zeros((sizes.prompts,), jnp.int32),
      tally=posterior.tally_init(sizes.prompts),
      rollouts=rows,
      outcome=outcome,
      methods=methods,
      decode_steps=jnp.zeros((len(rounds),), jnp.int32),
      slot_steps=jnp.int32(0),
    )

  return begin


def make_generate(
  rules: recipe.Recipe,
  policy: types.Policy,
  sizes: types.Sizes,
  source,
  *,
  rounds: tuple,
  slots: int,
  mesh: jax.sharding.Mesh | None,
) -> Callable:
  """A round: (state, settings, draft, round) -> Request, Rollouts[R], Draft.

  Args:
    rules, policy, sizes, slots, mesh: as for `train.make_step`.
    source: i32[N], of every prompt of the task.
    rounds: rows of each round, static.

  Returns:
    A function.
  """
  _, carried = carried_rows(rules, sizes)
  width = max(rounds)
  first = np.concatenate([[0], np.cumsum(rounds)[:-1]]).astype(np.int32)

  def generate(state, settings: Settings, draft: Draft, number):
    key = jax.random.fold_in(state.key, state.step)
    ids = draft.prompts.id
    columns = prompt_columns(state, draft, source)
    columns |= {"tally": draft.tally, "counts": draft.counts}
    new = recipe.call(
      rules.allocate.counts,
      columns,
      round=number,
      rows=jnp.asarray(rounds, jnp.int32)[number],
      key=jax.random.fold_in(jax.random.fold_in(key, ALLOCATE), number),
    )
    new = jnp.where(ids >= 0, new, 0)
    taken = draft.counts + carried_indices(draft, carried, sizes.prompts)
    request = rollout.fill(
      new,
      taken,
      rows=width,
      step=state.step,
      limit=settings.limit,
      first_row=carried + jnp.asarray(first)[number],
    )
    keys = rollout.row_keys(
      jax.random.fold_in(state.key, ROWS),
      request.born,
      ids[request.group],
      draft.prompts.occurrence[request.group],
      request.index,
    )
    rows, info = rollout.generate(
      policy,
      state.learners["policy"].params,
      draft.contexts,
      request,
      keys,
      settings.sampler,
      settings.stops,
      slots=slots,
      max_length=sizes.response_length,
      round_index=number,
      explore=rules.explore,
      terminate=rules.terminate,
      mesh=mesh,
    )
    draft = draft._replace(
      counts=draft.counts + new,
      decode_steps=draft.decode_steps.at[number].set(info.decode_steps),
      slot_steps=draft.slot_steps + info.slot_steps,
    )
    return request, rows, draft

  return generate


def carried_rows(rules: recipe.Recipe, sizes: types.Sizes) -> tuple[int, int]:
  """Most groups and rows of earlier steps in a step, static: (W, Q)."""
  return rules.replay.waiting(sizes) if rules.replay is not None else (0, 0)


def stats_of(stats: types.PromptStats, ids: jax.Array) -> types.PromptStats:
  """Beliefs of a step's prompts, [P]; of some prompt for an empty slot."""
  return jax.tree.map(lambda x: x[jnp.maximum(ids, 0)], stats)


def prompt_columns(state, draft: Draft, source) -> dict[str, Any]:
  """What an allocator may know of a step's prompts before it, [P] each."""
  ids = draft.prompts.id
  return {
    "stats": stats_of(state.stats, ids),
    "waiting": draft.waiting,
    "ids": ids,
    "source": jnp.asarray(source)[jnp.maximum(ids, 0)],
  }


def carried_indices(draft: Draft, carried: int, num_groups: int) -> jax.Array:
  """i32[P]: indices that carried rows already hold."""
  old = jax.tree.map(lambda x: x[:carried], draft.rollouts)
  return numerics.group_count(old.group, num_groups, old.valid)


def _fill_slots(resumed, fresh):
  """Waiting prompts keep the first slots, fresh ones take all others in order.

  Returns ids i32[P] and waiting bool[P].
  """
  padding = fresh.shape[0] - resumed.shape[0]
  resumed = jnp.pad(resumed, (0, padding), constant_values=-1)
  waiting = resumed >= 0
  nth = jnp.cumsum(~waiting) - 1
  return jnp.where(waiting, resumed, fresh[jnp.maximum(nth, 0)]), waiting
