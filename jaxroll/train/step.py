"""What happens in one training step? Plan, roll out, verify, learn.

A step is four pure functions over a `Draft`, the step's own record; `forms`
makes one of them. None tests which method it runs.

  begin      who is resumed, which prompts are selected      -> Draft
  generate   one round: counts, request, rollouts            -> rows, Draft
  absorb     what the verifier said of these rows            -> Draft
  learn      posterior, scores, rewards, advantages, update  -> state, Output

Where the allocator works at the slot, `at_slots` stands for all rounds.
"""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from absl import logging

from jaxroll import parallel, posterior, recipe, rollout, types
from jaxroll.train import at_slots as slots_lib
from jaxroll.train import methods as methods_lib
from jaxroll.train import metrics as metrics_lib
from jaxroll.train import plan, scoring
from jaxroll.train import prompts as prompts_lib
from jaxroll.train import update as update_lib
from jaxroll.train.plan import Draft, Settings

# Whose parameters a column of log-probs is made with.
_SCORERS = {
  "old_logp": lambda state: state.learners["policy"].params,
  "ref_logp": lambda state: state.frozen["reference"],
}


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
    at_slots: None, or (state, settings, draft) -> Draft: all that lies between
      `begin` and `learn`, for an allocator with a `gain`.
  """

  begin: Callable
  generate: Callable
  absorb: Callable
  learn: Callable
  rounds: tuple
  at_slots: Callable | None = None


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
    mesh: None for one device. Its row shards must divide `micro_rows` and,
      where the allocator has a `gain`, prompts and rows; see `parallel.check`.

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
  divided = {"micro_rows": micro_rows}
  if rules.allocate.gain is not None:
    divided |= {"prompts": sizes.prompts, "rows": sizes.rows}
  parallel.check(mesh, divided)
  policy = parallel.bound(policy, mesh)
  _warn_tails(rounds, slots)
  scorers = {
    name: params
    for name, params in _SCORERS.items()
    if name in recipe.passes(rules)
  }
  source = prompts_lib.source(task)
  begin = plan.make_begin(
    rules,
    task,
    policy,
    sizes,
    rounds=rounds,
    micro_rows=micro_rows,
    mesh=mesh,
  )
  generate = plan.make_generate(
    rules, policy, sizes, source, rounds=rounds, slots=slots, mesh=mesh
  )
  at_slots = None
  if rules.allocate.gain is not None:
    at_slots = slots_lib.make_at_slots(
      rules, task, policy, sizes, source, rounds=rounds, slots=slots, mesh=mesh
    )
  feature = {}
  if "feature" in recipe.needs(rules):
    feature["feature"] = jnp.asarray(prompts_lib.feature(task))

  def absorb(draft: Draft, request, rows, outcome) -> Draft:
    outcome = slots_lib.settled(outcome)
    scored = rows.valid & (outcome.status == types.SCORED)
    placed = rollout.place(
      (draft.rollouts, draft.outcome), (rows, outcome), request.row, rows.valid
    )
    tally = posterior.tally_add(draft.tally, outcome.reward, rows.group, scored)
    return draft._replace(rollouts=placed[0], outcome=placed[1], tally=tally)

  def learn(state, settings: Settings, draft: Draft):
    key = jax.random.fold_in(state.key, state.step)
    rows = _row_columns(draft)
    ids = draft.prompts.id
    prompts = {
      "ids": ids,
      "waiting": draft.waiting,
      "source": jnp.asarray(source)[jnp.maximum(ids, 0)],
      "stats": plan.stats_of(state.stats, ids),
    }
    specials = {
      "num_groups": sizes.prompts,
      "step": state.step,
      "key": jax.random.fold_in(key, plan.METHODS),
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
      key=jax.random.fold_in(key, plan.UPDATE),
      mesh=mesh,
    )
    methods = methods_lib.update(
      rules, rows | prompts | feature, methods, specials
    )
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

  return Step(begin, generate, absorb, learn, rounds, at_slots)


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
