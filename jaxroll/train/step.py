"""What happens in one training step? Plan, roll out, verify, learn.

A step is four pure functions over a `Draft`, the step's own record; `forms`
makes one of them. None tests which method it runs.

  begin      who is resumed, which prompts are selected      -> Draft
  generate   one round: counts, request, rollouts            -> rows, Draft
  absorb     what the verifier said of these rows            -> Draft
  learn      posterior, scores, rewards, advantages, update  -> state, Output
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import logging

from jaxroll import numerics, parallel, posterior, recipe, rollout, types
from jaxroll.train import methods as methods_lib
from jaxroll.train import metrics as metrics_lib
from jaxroll.train import scoring
from jaxroll.train import update as update_lib

# What a step's random numbers are for.
_SELECT, _ALLOCATE, _ROWS, _UPDATE, _METHODS = range(5)

# Whose parameters a column of log-probs is made with.
_SCORERS = {
  "old_logp": lambda state: state.learners["policy"].params,
  "ref_logp": lambda state: state.frozen["reference"],
}


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


class Output(NamedTuple):
  """What a step shows beside its state.

  Attributes:
    metrics: scalars by name.
    prompts: the step's prompts. counts: i32[P], new rows of each.
    solve_rate: f32[P], posterior mean before the step.
    rollouts: B rows. outcome: of those rows.
  """

  metrics: dict[str, chex.Array]
  prompts: types.Prompts
  counts: chex.Array
  solve_rate: chex.Array
  rollouts: types.Rollouts
  outcome: types.Outcome


class Step(NamedTuple):
  """The four functions of a step; see the module's docstring.

  Attributes:
    begin: (state, data) -> Draft.
    generate: (state, settings, draft, round) -> Request, Rollouts[R], Draft.
    absorb: (draft, request, rollouts, outcome) -> Draft.
    learn: (state, settings, draft) -> TrainState, Output.
    rounds: rows of each round, static.
  """

  begin: Callable
  generate: Callable
  absorb: Callable
  learn: Callable
  rounds: tuple


def make_step(
  rules: recipe.Recipe,
  task: types.Task,
  policy: types.Policy,
  optimiser: optax.GradientTransformation,
  sizes: types.Sizes,
  *,
  slots: int,
  micro_rows: int,
  mesh: jax.sharding.Mesh | None = None,
) -> Step:
  """The functions of a step for a recipe, a task and a policy.

  Args:
    rules: the recipe; checked here.
    task: types.Task.
    policy: types.Policy.
    optimiser: optax transformation of the policy's learner.
    sizes: static sizes; `sizes.rows` is the step's budget of new rollouts.
    slots: rows decoded at once.
    micro_rows: rows of one forward and backward pass.
    mesh: None for one device.

  Returns:
    A `Step`.

  Raises:
    ValueError: where the recipe cannot run or the sizes do not fit.
  """
  recipe.check(rules)
  rounds = tuple(rules.allocate.rounds(sizes.rows, sizes.prompts))
  if sum(rounds) > sizes.rows:
    raise ValueError(f"rounds {rounds} exceed the budget of {sizes.rows} rows")
  if sizes.prompts > len(task.train_pool):
    raise ValueError(
      f"prompts={sizes.prompts} a step, but task {task.name!r} has only "
      f"{len(task.train_pool)} training prompts: lower prompts"
    )
  _warn_tails(rounds, slots)
  scorers = {
    name: params
    for name, params in _SCORERS.items()
    if name in recipe.needs(rules)
  }
  width = max(rounds)
  first = np.concatenate([[0], np.cumsum(rounds)[:-1]]).astype(np.int32)
  groups_waiting, carried = (
    rules.replay.waiting(sizes) if rules.replay is not None else (0, 0)
  )

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
    fresh, methods = methods_lib.select(
      rules,
      jnp.asarray(task.train_pool, jnp.int32),
      state.stats,
      methods,
      num=sizes.prompts,
      blocked=blocked,
      step=state.step,
      key=jax.random.fold_in(key, _SELECT),
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

  def generate(state, settings: Settings, draft: Draft, number):
    key = jax.random.fold_in(state.key, state.step)
    ids = draft.prompts.id
    columns = {
      "stats": jax.tree.map(lambda x: x[jnp.maximum(ids, 0)], state.stats),
      "tally": draft.tally,
      "waiting": draft.waiting,
      "counts": draft.counts,
    }
    new = recipe.call(
      rules.allocate.counts,
      columns,
      round=number,
      rows=jnp.asarray(rounds, jnp.int32)[number],
      key=jax.random.fold_in(jax.random.fold_in(key, _ALLOCATE), number),
    )
    new = jnp.where(ids >= 0, new, 0)
    taken = draft.counts + _carried_rows(draft, carried, sizes.prompts)
    request = rollout.fill(
      new,
      taken,
      rows=width,
      step=state.step,
      limit=settings.limit,
      first_row=carried + jnp.asarray(first)[number],
    )
    keys = rollout.row_keys(
      jax.random.fold_in(state.key, _ROWS),
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

  def absorb(draft: Draft, request, rows, outcome) -> Draft:
    # A verifier that gives no number has failed, whatever it calls it.
    failed = (outcome.status == types.SCORED) & ~jnp.isfinite(outcome.reward)
    status = jnp.where(failed, types.UNSCORABLE, outcome.status)
    outcome = types.Outcome(jnp.where(failed, 0.0, outcome.reward), status)
    scored = rows.valid & (outcome.status == types.SCORED)
    placed = rollout.place(
      (draft.rollouts, draft.outcome), (rows, outcome), request.row, rows.valid
    )
    tally = posterior.tally_add(draft.tally, outcome.reward, rows.group, scored)
    return draft._replace(rollouts=placed[0], outcome=placed[1], tally=tally)

  def learn(state, settings: Settings, draft: Draft):
    key = jax.random.fold_in(state.key, state.step)
    rows = _row_columns(draft)
    prompts = {"ids": draft.prompts.id, "waiting": draft.waiting}
    specials = {
      "num_groups": sizes.prompts,
      "step": state.step,
      "key": jax.random.fold_in(key, _METHODS),
    }
    stats = _observe(rules, state, draft, rows | prompts, specials)
    rows |= scoring.columns(
      policy,
      {name: scorer(state) for name, scorer in scorers.items()},
      draft.rollouts,
      draft.contexts,
      settings.sampler.temperature,
      micro_rows=micro_rows,
      mesh=mesh,
    )
    raw = rows
    rows, methods = methods_lib.value(
      rules, rows, prompts, draft.methods, specials
    )
    learner, learned = update_lib.update(
      rules,
      policy,
      optimiser,
      state.learners["policy"],
      rows | {"context": draft.rollouts.context},
      draft.contexts,
      num_groups=sizes.prompts,
      micro_rows=micro_rows,
      temperature=settings.sampler.temperature,
      key=jax.random.fold_in(key, _UPDATE),
      mesh=mesh,
    )
    methods = methods_lib.update(rules, rows | prompts, methods, specials)
    if rules.replay is not None:
      methods["replay"] = _store(rules.replay, methods, draft, state.step)
    metrics = learned | metrics_lib.measure(draft, raw, rows, sizes.prompts)
    metrics["skipped_nonfinite"] = metrics_lib.skipped(learner.opt_state)
    output = _output(metrics, state, draft)
    state = state.replace(
      learners=state.learners | {"policy": learner},
      stats=stats,
      methods=methods,
      step=state.step + 1,
    )
    if mesh is not None:
      # As it came: the next call compiles nothing.
      state = jax.lax.with_sharding_constraint(
        state, parallel.shardings(state, mesh)
      )
    return state, output

  return Step(begin, generate, absorb, learn, rounds)


def _warn_tails(rounds, slots):
  short = [rows for rows in rounds if rows < 4 * slots]
  if len(rounds) > 1 and short:
    logging.warning(
      "%d of %d rounds have fewer than 4 rows per slot (rows %s, slots %d): "
      "every round ends in a tail of half-empty slots; lower slots or raise "
      "the budget",
      len(short),
      len(rounds),
      short,
      slots,
    )


def _fill_slots(resumed, fresh):
  """Waiting prompts keep the first slots, fresh ones take all others in order.

  Returns ids i32[P] and waiting bool[P].
  """
  padding = fresh.shape[0] - resumed.shape[0]
  resumed = jnp.pad(resumed, (0, padding), constant_values=-1)
  waiting = resumed >= 0
  nth = jnp.cumsum(~waiting) - 1
  return jnp.where(waiting, resumed, fresh[jnp.maximum(nth, 0)]), waiting


def _carried_rows(draft, carried, num_groups):
  """i32[P]: indices that carried rows already hold."""
  old = jax.tree.map(lambda x: x[:carried], draft.rollouts)
  return numerics.group_count(old.group, num_groups, old.valid)


def _row_columns(draft):
  """Columns [B, ...] of the rows as the verifier left them."""
  rows, outcome = draft.rollouts, draft.outcome
  valid = rows.valid & (outcome.status == types.SCORED)
  names = ("group", "index", "length", "given_length", "round", "stopped")
  names += ("tokens", "entropy", "behaviour_logp")
  return {name: getattr(rows, name) for name in names} | {
    "status": outcome.status,
    "reward": jnp.where(valid, outcome.reward, 0.0),
    "valid": valid,
    "mask": rows.mask & valid[:, None],
  }


def _observe(rules, state, draft, columns, specials):
  """Beliefs after the step's evidence, which is never more than is scored."""
  evidence = recipe.call(rules.evidence, columns, **specials)
  return rules.observe(
    state.stats,
    draft.prompts.id,
    columns["reward"],
    columns["length"],
    columns["group"],
    evidence & columns["valid"],
    step=state.step,
  )


def _store(replay, methods, draft, step):
  """The replay's state with the step's rows added."""
  rows, outcome = draft.rollouts, draft.outcome
  return replay.add(
    methods["replay"], draft.prompts, rows, outcome, draft.waiting, step=step
  )


def _output(metrics, state, draft):
  ids = jnp.maximum(draft.prompts.id, 0)
  return Output(
    metrics=metrics,
    prompts=draft.prompts,
    counts=draft.counts,
    solve_rate=posterior.mean(state.stats)[ids],
    rollouts=draft.rollouts,
    outcome=draft.outcome,
  )
