"""Which suites are there, and what are they told?"""

from collections.abc import Callable
from typing import NamedTuple

from experiments import cli
from experiments.benchmarks import (
  allocate,
  growth,
  rollout,
  shapes,
  soak,
  start,
  step,
  timing,
  update,
)


class Options(NamedTuple):
  """What the suites are told.

  Attributes:
    of: the shapes. size: their name. repeats: calls that are measured, >= 1.
    peers: of `timing.compare`. batches: rows at once that they choose from.
    only: cases whose name begins with this. profile: folder or None.
    sizes: prompts of `allocate`. steps: of `soak`.
  """

  of: shapes.Shapes
  size: str
  repeats: int
  peers: tuple = ()
  batches: tuple = ()
  only: str = ""
  profile: str | None = None
  sizes: tuple = (10_000,)
  steps: int = 1000


def _compared(cases: Callable) -> Callable:
  """A suite of cases that are timed one after another, each with the peers."""

  def run(options: Options) -> list:
    made = cases(options)
    chosen = [name for name in made if name.startswith(options.only)]
    if not chosen:
      raise cli.Refused(
        f"--only={options.only}: no case of {', '.join(made)} begins with it"
      )
    rows = []
    for name in chosen:
      case = made[name]()
      model = {"model": options.of._asdict(), "new": options.of.new}
      case = case._replace(job=case.job | model | {"rows": options.of.rows})
      rows.append(
        timing.compare(
          case,
          options.size,
          options.repeats,
          options.peers,
          profile=options.profile,
        )
      )
    return rows

  return run


class Suite(NamedTuple):
  """Functions of a suite: (options) -> rows, (rows) -> text."""

  rows: Callable
  table: Callable = timing.table


SUITES = {
  "allocate": Suite(
    lambda o: allocate.allocate(o.sizes, o.repeats), allocate.table
  ),
  "growth": Suite(
    lambda o: growth.growth(o.of, o.size, o.repeats), growth.table
  ),
  "rollout": Suite(_compared(lambda o: rollout.cases(o.of, o.batches))),
  "soak": Suite(lambda o: soak.soak(o.of, o.size, o.steps)),
  "start": Suite(lambda o: start.start(o.repeats)),
  "step": Suite(_compared(lambda o: step.cases(o.of))),
  "update": Suite(_compared(lambda o: update.cases(o.of))),
}


def run(suite: str, options: Options) -> list:
  """The rows of a suite.

  Args:
    suite: a name of `SUITES`.
    options: what it is told.

  Returns:
    A list of `timing.Row`.

  Raises:
    cli.Refused: for an unknown suite, which lists those that exist, and for
      numbers out of range.
  """
  check(suite, options)
  with cli.refusals():
    return SUITES[suite].rows(options)


def check(suite: str, options: Options) -> None:
  """Refuses what no suite can measure. Raises: cli.Refused."""
  if suite not in SUITES:
    raise cli.Refused(
      f"--suite={suite} is not known: choose of {', '.join(SUITES)}"
    )
  if options.repeats < 1 or min(options.sizes) < allocate.SHARE:
    raise cli.Refused(
      f"--sizes={options.sizes} --repeats={options.repeats}: sizes must be >= "
      f"{allocate.SHARE} and repeats >= 1"
    )
  with cli.refusals():
    shapes.check(options.of)


def sized(size: str, changes: dict) -> tuple[shapes.Shapes, str]:
  """The shapes of a size with some of their fields changed, and their name.

  Raises:
    cli.Refused: for an unknown size, which lists those that exist.
  """
  if size not in shapes.SIZES:
    raise cli.Refused(
      f"--size={size} is not known: choose one of {', '.join(shapes.SIZES)}"
    )
  label = ",".join([size, *(f"{name}={x}" for name, x in changes.items())])
  return shapes.SIZES[size]._replace(**changes), label
