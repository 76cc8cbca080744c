"""How does one recipe do on one seed until the budget is spent?

A recipe is compiled once. Its program is the same for all seeds: the arrays
that a seed's task closes over, a population's features for example, are taken
out of the traced step and handed in as arguments.

A finished cell is one JSON file, written whole or not at all, that carries the
fingerprint of everything its numbers depend on.
"""

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import logging

from experiments.comparison import problems
from jaxroll import parallel, recipe, train

# Of a training step, what a cell adds up.
_COUNTED = (
  "rollouts",
  "generated_tokens",
  "prompts",
  "optimiser_steps",
  "mixed_rollout_share",
  "zero_variance_share",
  "grad_norm",
  "update_norm",
)
COSTS = {"rollouts": "rollouts", "tokens": "generated_tokens"}


class Arm(NamedTuple):
  """A recipe that is to run on several seeds.

  Attributes:
    name: of the recipe. rules: the recipe. learning_rate: of its optimiser.
    problem: what it learns. every: steps between two evaluations.
    programs: compiled chunks of steps; one, unless seeds differ in shapes.
  """

  name: str
  rules: recipe.Recipe
  learning_rate: float
  problem: problems.Problem
  every: int
  slots: int
  micro_rows: int
  programs: dict


def arm(config, rules, name, learning_rate, problem) -> Arm:
  """An arm of the comparison; nothing is compiled yet.

  Raises:
    ValueError: where the recipe does not fit the sizes.
  """
  sizes = problem.sizes
  if rules.allocate.gain is not None and not problem.jittable:
    raise ValueError(
      "it allocates at the slot, where rows are scored inside the decode loop, "
      "and this task verifies on the host: leave it out"
    )
  rounds = tuple(rules.allocate.rounds(sizes.rows, sizes.prompts))
  if sum(rounds) > sizes.rows:
    raise ValueError(f"rounds {rounds} exceed the budget of {sizes.rows} rows")
  return Arm(
    name=name,
    rules=rules,
    learning_rate=learning_rate,
    problem=problem,
    every=config.eval_every,
    slots=config.slots,
    micro_rows=config.micro_rows,
    programs={},
  )


def run(of: Arm, seed: int, *, unit: str, budget: float, progress) -> dict:
  """Trains until the budget is spent.

  Args:
    of: the arm.
    seed: >= 0.
    unit: "rollouts" or "tokens".
    budget: of that unit, > 0.
    progress: called with the share that is done, in [0, 1].

  Returns:
    JSON values: `curve` (costs and metrics of every evaluation; the last one
    is at or after the budget), totals until the budget was reached, and
    `ended`: what a method had spent when it had no prompt left, or None.
  """
  instance = of.problem.instance(seed)
  optimiser = of.problem.optimiser(of.learning_rate)
  # Copied: steps take over the memory of their input.
  state = jax.tree.map(
    jnp.copy,
    train.init_state(
      of.rules,
      instance.policy,
      optimiser,
      of.problem.sizes,
      jax.random.key(seed),
      params=instance.params,
    ),
  )
  if of.problem.mesh is not None:
    state = jax.device_put(state, parallel.shardings(state, of.problem.mesh))
  chunk, compiling = _chunk(of, instance, optimiser, state)
  steps = {name: np.zeros(0) for name in _COUNTED}
  curve = {"rollouts": [], "tokens": []}

  def evaluated(params):
    for name, value in instance.evaluate(params).items():
      curve.setdefault(name, []).append(value)
    for name, of_step in COSTS.items():
      curve[name].append(int(np.sum(steps[of_step])))

  began, ended = time.monotonic(), None
  evaluated(state.learners["policy"].params)
  while curve[unit][-1] < budget:
    state, new = chunk(state)
    steps = {name: np.concatenate([steps[name], new[name]]) for name in steps}
    evaluated(state.learners["policy"].params)
    if curve[unit][-1] == curve[unit][-2]:
      # Nothing left to roll out: it stays where it is.
      ended = curve[unit][-1]
      curve[unit][-1] = budget
    progress(min(1.0, curve[unit][-1] / budget))
  return {
    "recipe": of.name,
    "seed": seed,
    "learning_rate": of.learning_rate,
    "ended": ended,
    "curve": curve,
    **_totals(steps, COSTS[unit], budget),
    "seconds": time.monotonic() - began,
    "compile_seconds": compiling,
  }


def _totals(steps, unit, budget) -> dict:
  """Sums and means of the steps that the budget paid for."""
  needed = int(np.searchsorted(np.cumsum(steps[unit]), budget)) + 1
  steps = {name: x[:needed].astype(float) for name, x in steps.items()}

  def mean(name, weight):
    total = np.sum(steps[weight])
    return float(np.sum(steps[name] * steps[weight]) / max(total, 1))

  return {
    "steps": len(steps["rollouts"]),
    "rollouts": int(np.sum(steps["rollouts"])),
    "tokens": int(np.sum(steps["generated_tokens"])),
    "optimiser_steps": int(np.sum(steps["optimiser_steps"])),
    "mixed_rollout_share": mean("mixed_rollout_share", "rollouts"),
    "zero_variance_share": mean("zero_variance_share", "prompts"),
    "grad_norm": float(np.mean(steps["grad_norm"])),
    "update_norm": float(np.mean(steps["update_norm"])),
  }


# --- the program


def _chunk(of: Arm, instance, optimiser, state):
  """(state) -> state, metrics [every]; and the seconds it took to compile."""
  problem, task = of.problem, instance.task

  def made():
    # Its warnings are said once, and those of tails not where all rows end
    # together.
    with _quiet(bool(of.programs) or problem.sizes.response_length == 1):
      return train.make_step(
        of.rules,
        task,
        instance.policy,
        optimiser,
        problem.sizes,
        slots=of.slots,
        micro_rows=of.micro_rows,
        mesh=problem.mesh,
      )

  if not task.jittable:
    if "hosted" not in of.programs:
      of.programs["hosted"] = train.hosted(made(), task)
    return _hosted(of, of.programs["hosted"], task), 0.0
  if problem.fixed and "fixed" in of.programs:
    return _with(of.programs["fixed"], task.data, problem.settings), 0.0
  step = train.fused(made(), task)

  def steps(state, data, settings):
    def one(state, _):
      after, output = step(state, data, settings)
      return _counted(problem, state, after, output.metrics)

    return jax.lax.scan(one, state, None, length=of.every)

  began = time.monotonic()
  arguments = (state, task.data, problem.settings)
  closed, shapes = jax.make_jaxpr(steps, return_shape=True)(*arguments)
  # Programs are the same where they read the same, constants left out.
  text = f"{closed.jaxpr}{[(x.shape, x.dtype) for x in closed.consts]}"
  text = re.sub("0x[0-9a-f]+", "", text)  # where functions lie in memory
  key = hashlib.sha256(text.encode()).hexdigest()
  if key not in of.programs:
    of.programs[key] = _compile(closed.jaxpr, shapes, closed.consts, arguments)
  program = of.programs[key]

  def call(state, data, settings):
    return program(closed.consts, state, data, settings)

  if problem.fixed:
    of.programs["fixed"] = call
  return _with(call, task.data, problem.settings), time.monotonic() - began


@contextlib.contextmanager
def _quiet(wanted: bool):
  before = logging.get_verbosity()
  logging.set_verbosity(logging.ERROR if wanted else before)
  try:
    yield
  finally:
    logging.set_verbosity(before)


def _compile(jaxpr, shapes, constants, arguments):
  tree = jax.tree.structure(shapes)

  def program(constants, state, data, settings):
    leaves = jax.tree.leaves((state, data, settings))
    return jax.tree.unflatten(
      tree, jax.core.eval_jaxpr(jaxpr, constants, *leaves)
    )

  jitted = jax.jit(program, donate_argnums=1)
  return jitted.lower(constants, *arguments).compile()


def _with(call, data, settings):
  def chunk(state):
    state, counted = call(state, data, settings)
    return state, jax.device_get(counted)

  return chunk


def _hosted(of: Arm, step, task):
  counted = jax.jit(functools.partial(_counted, of.problem))

  def chunk(state):
    rows = []
    for _ in range(of.every):
      after, output = step(state, task.data, of.problem.settings)
      state, metrics = counted(state, after, output.metrics)
      rows.append(jax.device_get(metrics))
    return state, {name: np.array([r[name] for r in rows]) for name in _COUNTED}

  return chunk


def _counted(problem: problems.Problem, before, after, metrics):
  """The state after a step, and the step's metrics.

  Where updates are matched, a step that spent a part of its rollouts goes that
  part of its way: methods that spend less a step take more of them, and would
  otherwise go further at the same cost.
  """
  share = jnp.float32(1)
  if problem.matched:
    share = metrics["rollouts"].astype(jnp.float32) / problem.sizes.rows
  old, new = (s.learners["policy"].params for s in (before, after))
  moved = jax.tree.map(lambda x, y: share * (y - x), old, new)
  if problem.matched:
    learner = after.learners["policy"].replace(
      params=jax.tree.map(jnp.add, old, moved)
    )
    after = after.replace(learners=after.learners | {"policy": learner})
  known = metrics | {"update_norm": optax.global_norm(moved)}
  return after, {name: known[name] for name in _COUNTED}


# --- files


def fingerprint(settings: dict) -> str:
  """Twelve letters that stand for everything a cell's numbers depend on."""
  text = json.dumps(settings, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:12]


def path(folder, name: str, seed: int, learning_rate: float) -> pathlib.Path:
  """Where a cell is kept."""
  return pathlib.Path(folder) / f"{name}-{learning_rate:g}-{seed}.json"


def save(where: pathlib.Path, cell: dict) -> None:
  """Writes a cell, whole or not at all."""
  where.parent.mkdir(parents=True, exist_ok=True)
  partial = where.with_suffix(f".{os.getpid()}.tmp")
  partial.write_text(json.dumps(cell), encoding="utf-8")
  os.replace(partial, where)


def load(where: pathlib.Path, of: str) -> dict | None:
  """A finished cell, or None.

  Raises:
    ValueError: it is of another comparison.
  """
  if not where.exists():
    return None
  cell = json.loads(where.read_text(encoding="utf-8"))
  if cell["fingerprint"] != of:
    raise ValueError(
      f"{where} belongs to a comparison with other settings "
      f"({cell['fingerprint']}, not {of}): choose another --workdir"
    )
  return cell


def finished(folder, of: str, seeds: int, without: list[str]) -> dict:
  """Cells of methods that ran before on all seeds.

  Args:
    folder: of the cells.
    of: the comparison's fingerprint.
    seeds: 0 ... seeds - 1 are wanted.
    without: methods that are left out.

  Returns:
    recipe -> list of cells.
  """
  found = {}
  for file in sorted(pathlib.Path(folder).glob("*.json")):
    cell = load(file, of)
    if cell["recipe"] not in without:
      found.setdefault(cell["recipe"], {})[cell["seed"]] = cell
  return {
    name: [some[seed] for seed in range(seeds)]
    for name, some in found.items()
    if set(range(seeds)) <= set(some)
  }
