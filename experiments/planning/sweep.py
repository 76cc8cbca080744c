"""Which mesh shape is best? All by arithmetic, the likeliest compiled."""

from typing import NamedTuple

from experiments.planning import advice, figures, programs, topologies
from jaxroll import models, parallel


class Setting(NamedTuple):
  """What every mesh of a plan has in common.

  Attributes:
    config: of the model. count: its parameters. topology: its devices.
    work: sizes of the step; slots and micro_rows of 0 are chosen by mesh.
  """

  config: models.Config
  count: int
  topology: topologies.Topology
  work: programs.Work


def filled(setting: Setting, sizes: dict[str, int]) -> programs.Work:
  """The work with slots and micro-batch chosen where they are 0.

  Args:
    setting: of the plan. sizes: of the mesh.

  Returns:
    `Work`: as many slots as fit by arithmetic, one row a shard.
  """
  work = setting.work
  shards = sizes.get("data", 1) * sizes.get("fsdp", 1)
  if not work.micro_rows:
    work = work._replace(micro_rows=min(shards, work.rows))
  if not work.slots:
    chip = setting.topology.chip
    slots = advice.most_slots(setting.config, setting.count, work, sizes, chip)
    work = work._replace(slots=slots)
  return work


def one(setting: Setting, sizes: dict[str, int]) -> dict:
  """The report of one mesh, with advice.

  Args:
    setting: of the plan. sizes: of the mesh.

  Returns:
    What `figures.report` gives, and "name", "advice" and "estimate".
  """
  work, chip = filled(setting, sizes), setting.topology.chip
  mesh = parallel.make_mesh(**sizes, devices=setting.topology.devices)
  found = figures.report(setting.config, work, mesh, chip)
  guess = advice.estimate(setting.config, setting.count, work, sizes, chip)
  found["name"] = topologies.show(sizes)
  found["estimate"] = guess
  found["advice"] = advice.advise(found, guess)
  return found


def order(setting: Setting) -> tuple[list[dict], list[dict]]:
  """All meshes: those that may fit, the likeliest first, and the others.

  Args:
    setting: of the plan.

  Returns:
    Two lists of axis -> size.
  """
  chip = setting.topology.chip
  likely, pruned = [], []
  for sizes in topologies.shapes(len(setting.topology.devices)):
    work = filled(setting, sizes)
    guess = advice.estimate(setting.config, setting.count, work, sizes, chip)
    fits = max(guess["rollout"], guess["update"]) <= chip.capacity
    splits = not setting.config.heads % sizes["tensor"]
    if fits and splits:
      likely.append((guess["seconds"], tuple(sizes.values()), sizes))
    else:
      pruned.append(sizes)
  return [sizes for *_, sizes in sorted(likely, key=lambda x: x[:2])], pruned


def best(reports: list[dict]) -> str | None:
  """The mesh of the least seconds a step among those that fit.

  Args:
    reports: of `one`.

  Returns:
    Its name, or None.
  """
  fitting = [r for r in reports if r["fits"] and "step_seconds" in r["bounds"]]
  if not fitting:
    return None
  return min(fitting, key=lambda r: r["bounds"]["step_seconds"])["name"]
