"""Compares methods at a matched budget, over paired seeds.

  python -m experiments.compare --task=population \
    --recipes=uniform,vade,vigor --seeds=8 --workdir=runs/compare

All methods spend the same number of rollouts (or tokens: --budget_unit), on
the same seeds. Methods with more mixed groups take larger steps, and that
alone can look like a gain: --step_size=matched lets every rollout move the
policy by the same length, tuned finds each method's learning rate on other
seeds, fixed leaves it, with a warning.

The workdir gets results.json (a record a method), results.html, cells/ (a file
a method and seed) and comparison.json (the settings). The same command goes on
where it was killed; more recipes or seeds may be added, and methods that have
all seeds already stay in the results. A page of several comparisons:

  python -m experiments.compare --page=docs/results.md --workdirs=a,b
"""

import difflib
import functools
import json
import pathlib
import sys
import traceback

import jax
import numpy as np
from absl import flags, logging

from experiments import build, cli
from experiments.comparison import analysis, cells, pages, problems
from jaxroll import checkpoint, evaluate, metrics, recipes

_CONFIGS = pathlib.Path(__file__).parent / "configs"
_PREFIX = "compare_"

# Fields that no cell depends on: asked of the cells when all are there.
_FREE = ("metric", "margin", "power", "target", "target_share", "tensorboard")
_TUNING = 1_000_000  # the first seed of tuning: far from those compared


def config_file(task: str) -> str:
  """The config that --task names: a file, or configs/compare_TASK.py."""
  if task.endswith(".py"):
    if not pathlib.Path(task).exists():
      raise cli.Refused(f"task={task!r}: there is no such file")
    return task
  file = _CONFIGS / f"{_PREFIX}{task}.py"
  if not file.exists():
    known = [x.stem.removeprefix(_PREFIX) for x in _CONFIGS.glob(f"{_PREFIX}*")]
    raise cli.Refused(
      f"task={task!r}: must be one of {sorted(known)}, or a config file"
    )
  return str(file)


def run(
  config,
  workdir: str,
  *,
  names: list[str],
  seeds: int,
  baseline: str = "uniform",
  unit: str = "rollouts",
  step_size: str = "matched",
  task: str = "",
) -> list[dict]:
  """Runs the cells that are missing, then writes what all of them say.

  Args:
    config: the fields of configs/compare_population.py.
    workdir: of this comparison; new, or begun with the same settings.
    names: recipes, or ["all"]; the baseline is added where it is missing.
    seeds: 0 ... seeds - 1 are compared.
    baseline: the recipe that the others are compared to.
    unit: of config.budget, "rollouts" or "tokens".
    step_size: "matched", "tuned" or "fixed".
    task: name for readers; config.task.name where it is empty.

  Returns:
    What results.json holds.

  Raises:
    cli.Refused: before anything runs, where something cannot.
  """
  names = recipes.__all__ if "all" in names else names
  names = list(dict.fromkeys([baseline, *names]))
  workdir = pathlib.Path(workdir)
  with cli.refusals():
    if not any(names):
      raise ValueError("recipes is empty: name some, or all")
    if seeds < 2:
      raise ValueError(f"seeds={seeds}: an interval needs at least 2")
    if step_size == "tuned" and seeds > _TUNING:
      raise ValueError(f"seeds={seeds}: must be at most {_TUNING}")
    problems.check(config)
    problem = problems.make(config, workdir, step_size=step_size)
    arms = _arms(config, problem, names)
    settings = {
      "config": json.loads(json.dumps(config.to_dict())),
      "budget_unit": unit,
      "step_size": step_size,
    }
    _claim_workdir(workdir, settings)
    mark = cells.fingerprint(_bound(settings))

  if not jax.config.jax_compilation_cache_dir:
    jax.config.update("jax_compilation_cache_dir", str(workdir / "jax_cache"))
  rates = len(config.tuning_rates) * config.tuning_seeds
  each = seeds + (rates if step_size == "tuned" else 0)
  bar = _Bar(each * len(names))
  cell = functools.partial(
    _cell, mark=mark, unit=unit, budget=config.budget, bar=bar
  )
  with cli.refusals():
    done = cells.finished(workdir / "cells", mark, seeds, names)
  failures = {}
  for place, name in enumerate(names):
    bar.reach(place * each)
    try:
      arm = arms.pop(name)  # and its compiled programs with it
      if step_size == "tuned":
        tuning = functools.partial(cell, folder=workdir / "tuning")
        arm = _tuned(config, arm, tuning, unit)
      done[name] = [
        cell(arm, seed, folder=workdir / "cells") for seed in range(seeds)
      ]
    # One broken method must not cost the others their night.
    except Exception as error:  # noqa: BLE001
      if name == baseline or isinstance(error, cli.Refused):
        raise
      failures[name] = f"{type(error).__name__}: {error}".splitlines()[0]
      bar.note(f"{name} FAILED\n{traceback.format_exc()}")
    question = analysis.Question(
      task=task or config.task.name,
      metric=config.metric,
      unit=unit,
      budget=config.budget,
      step_size=step_size,
      margin=config.margin,
      power=config.power,
      target=config.target or None,
      target_share=config.target_share,
    )
    found = analysis.records(question, done, baseline, failures)
    pages.write_json(workdir / "results.json", found)
  bar.close()
  page = pages.write_html(workdir, question, found, done)
  bar.note(pages.summary(found))
  for text in pages.warnings(found[0]):
    logging.warning(text)
  bar.note(f"results: {page}")
  return found


def _arms(config, problem, names) -> dict:
  """recipe -> Arm; all that cannot run are refused together."""
  arms, wrong = {}, []
  for name in names:
    own = config.copy_and_resolve_references()
    own.recipe = name
    try:
      if name not in recipes.__all__:
        near = difflib.get_close_matches(name, recipes.__all__)
        raise ValueError(
          f"no such recipe: did you mean {near}?"
          if near
          else f"no such recipe: must be of {sorted(recipes.__all__)}"
        )
      rules = build.rules(own, problem.sizes)
      arms[name] = cells.arm(config, rules, name, config.learning_rate, problem)
      problem.optimiser(config.learning_rate)
    except ValueError as error:
      wrong.append(f"{name}: {error}")
  if wrong:
    raise ValueError("\n".join([f"{len(wrong)} cannot run:", *wrong]))
  return arms


def _claim_workdir(workdir, settings) -> None:
  """Makes the workdir, or makes sure that it is of this comparison."""
  file = workdir / "comparison.json"
  if file.exists():
    saved = json.loads(file.read_text(encoding="utf-8"))
    free = tuple(f"config.{name}" for name in _FREE)
    checkpoint.check_config(saved, settings, free=free)
  elif workdir.exists() and any(workdir.iterdir()):
    raise ValueError(
      f"{workdir} is not empty and holds no comparison: choose another "
      "--workdir"
    )
  workdir.mkdir(parents=True, exist_ok=True)
  pages.write_json(file, settings)


def _bound(settings) -> dict:
  """The settings that a cell's numbers depend on."""
  bound = {k: x for k, x in settings["config"].items() if k not in _FREE}
  return settings | {"config": bound}


def _cell(arm, seed, *, folder, mark, unit, budget, bar) -> dict:
  """A finished cell: from its file, or run now."""
  where = cells.path(folder, arm.name, seed, arm.learning_rate)
  with cli.refusals():
    cell = cells.load(where, mark)
  if cell is None:
    show = functools.partial(bar.within, f"{arm.name}/{seed}")
    cell = cells.run(arm, seed, unit=unit, budget=budget, progress=show)
    cell["fingerprint"] = mark
    cells.save(where, cell)
  bar.done()
  return cell


def _tuned(config, arm, cell, unit):
  """The arm at its best rate, by the mean at the budget on tuning seeds."""
  best, rate = -np.inf, None
  for factor in sorted(config.tuning_rates):
    tried = arm._replace(
      learning_rate=config.learning_rate * factor, programs={}
    )
    curves = [
      cell(tried, _TUNING + seed)["curve"]
      for seed in range(config.tuning_seeds)
    ]
    value = np.mean(
      [
        evaluate.at_cost(curve[unit], curve[config.metric], config.budget)
        for curve in curves
      ]
    )
    # Of equal ones the lowest; a rate that diverged is none.
    if value > best:
      best, rate = value, tried
  if rate is None:
    raise RuntimeError(f"{arm.name}: every rate of tuning_rates diverged")
  return rate


class _Bar:
  """Progress in hundredths of a cell; cells from files cost no time."""

  def __init__(self, number):
    self._number, self._done = number, 0
    self._progress = None

  def _at(self, share, label):
    if self._progress is None:
      self._progress = metrics.Progress(100 * self._number)
    self._progress.update(
      round(100 * (self._done + share)),
      {"cell": f"{self._done + 1} of {self._number}", "now": label},
    )

  def within(self, label, share):
    self._at(share, label)

  def done(self):
    self._done += 1

  def reach(self, number):
    self._done = number

  def note(self, text):
    (self._progress or metrics.Progress(1)).note(text)

  def close(self):
    if self._progress is not None:
      self._progress.close()


def _define_flags():
  flags.DEFINE_string("task", "population", "What is learned; see config_file.")
  flags.DEFINE_list("recipes", ["uniform", "vade", "vigor"], "Or all.")
  flags.DEFINE_string("baseline", "uniform", "What they are compared to.")
  flags.DEFINE_integer("seeds", 8, "Paired seeds.")
  flags.DEFINE_string("workdir", "runs/compare", "Where everything goes.")
  flags.DEFINE_enum(
    "budget_unit", "rollouts", list(cells.COSTS), "Spent alike."
  )
  flags.DEFINE_enum(
    "step_size", "matched", ["matched", "tuned", "fixed"], "See the docstring."
  )
  flags.DEFINE_string("page", None, "Write a page of --workdirs instead.")
  flags.DEFINE_list("workdirs", [], "Finished comparisons, for --page.")


def _with_config(argv: list[str]) -> list[str]:
  """The arguments with the config file that --task names."""
  given = [x.lstrip("-") for x in argv[1:] if x.startswith("-")]
  if any(x == "config" or x.startswith("config=") for x in given):
    return argv
  task = "population"
  for place, word in enumerate(argv[1:], start=1):
    name, _, value = word.lstrip("-").partition("=")
    if word.startswith("-") and name == "task":
      task = value or " ".join(argv[place + 1 : place + 2])
  return [argv[0], f"--config={config_file(task)}", *argv[1:]]


def main():
  args = flags.FLAGS
  if args.page:
    with cli.refusals():
      pages.write_page(args.page, args.workdirs or [args.workdir])
    return
  run(
    args.config,
    args.workdir,
    names=args.recipes,
    seeds=args.seeds,
    baseline=args.baseline,
    unit=args.budget_unit,
    step_size=args.step_size,
    task=pathlib.Path(args.task).stem,
  )


if __name__ == "__main__":
  try:
    sys.argv = _with_config(sys.argv)
  except cli.Refused as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(2)
  _define_flags()
  cli.config_flag(config_file("population"))
  cli.launch(main)
