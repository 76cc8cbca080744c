"""Does a step fit a pod, and how fast can it be? Asked of the real compiler.

  python -m experiments.plan --model=qwen2_5_7b --topology=v5e:8x8 \
    --mesh=fsdp:16,tensor:4 --json=plan.json

Compiles the library's own rollout and update for devices that are not there,
on shapes alone, and prints memory by kind against the chip's, operations,
bytes, collectives, the bound and the tokens/s that it allows. `--sweep` tries
mesh shapes, `--kernels` tells what the library's kernels save. TPUs need libtpu
in a folder aside (docs/plan.md); --topology=cpu:8 needs nothing and takes the
machine's own peaks. A 7B model takes minutes a mesh.
"""

import dataclasses
import json
import pathlib
from typing import NamedTuple

import jax
from absl import flags

from experiments import cli
from experiments.planning import (
  advice,
  kernels,
  models,
  programs,
  sweep,
  tables,
  topologies,
)


class Asked(NamedTuple):
  """What to plan, as the flags have it.

  Attributes:
    model: a name of `models.CONFIGS`. topology: "v5e:8x8", "cpu:8".
    mesh: "AXIS:SIZE,..."; "" puts all devices on fsdp.
    sweep: try mesh shapes. sweep_compiles: how many of them.
    prompts: of a step. rows: its rollouts.
    prompt_length: tokens. response_length: tokens.
    slots: rows decoded at once; 0: as many as fit by arithmetic.
    micro_rows: of one backward pass; 0: one a row shard.
    layers: 0: the model's own. remat: what the backward pass recomputes.
    dtype: of activations; "" is bfloat16 on a TPU, float32 on the CPU.
    libtpu: its folder; "" is the cache folder's.
    kernels: compile the library's kernels too, beside what they would replace.
  """

  model: str = "smollm2_135m"
  topology: str = "v5e:2x2"
  mesh: str = ""
  sweep: bool = False
  sweep_compiles: int = 4
  prompts: int = 64
  rows: int = 1024
  prompt_length: int = 1024
  response_length: int = 1024
  slots: int = 0
  micro_rows: int = 0
  layers: int = 0
  remat: str = "full"
  dtype: str = ""
  libtpu: str = ""
  kernels: bool = False


_AT_LEAST = {
  "sweep_compiles": 1,
  "prompts": 1,
  "rows": 1,
  "prompt_length": 1,
  "response_length": 1,
  "slots": 0,
  "micro_rows": 0,
  "layers": 0,
}


def setting(asked: Asked) -> sweep.Setting:
  """The model, the devices and the work of what is asked.

  Args:
    asked: what to plan.

  Returns:
    `sweep.Setting`.

  Raises:
    cli.Refused: for what cannot be planned.
  """
  for name, least in _AT_LEAST.items():
    if getattr(asked, name) < least:
      raise cli.Refused(
        f"--{name}={getattr(asked, name)}: must be at least {least}"
      )
  if asked.rows < asked.prompts:
    raise cli.Refused(
      f"--rows={asked.rows} < --prompts={asked.prompts}: give every prompt a "
      "row, or take fewer prompts"
    )
  if asked.sweep and asked.mesh:
    raise cli.Refused(
      f"--sweep tries all meshes: leave out --mesh={asked.mesh}"
    )
  on_cpu = asked.topology.startswith("cpu")
  with cli.refusals():
    config = models.config(
      asked.model,
      dtype=asked.dtype or ("float32" if on_cpu else "bfloat16"),
      remat=asked.remat,
    )
    if asked.layers:
      config = dataclasses.replace(config, layers=asked.layers)
    topology = topologies.describe(asked.topology, asked.libtpu or None)
  fields = {name: getattr(asked, name) for name in programs.Work._fields}
  work = programs.Work(**fields)
  return sweep.Setting(config, advice.parameters(config), topology, work)


def run(asked: Asked) -> dict:
  """Makes a plan.

  Args:
    asked: what to plan.

  Returns:
    The plan, for JSON: the setting, "reports" of the meshes compiled, those
    that arithmetic left out, and after a sweep the "best".

  Raises:
    cli.Refused: for what cannot be planned.
  """
  found = setting(asked)
  number = len(found.topology.devices)
  left, pruned = [], []
  if asked.sweep:
    likely, pruned = sweep.order(found)
    meshes = likely[: asked.sweep_compiles]
    left = likely[asked.sweep_compiles :]
  else:
    text = asked.mesh or f"fsdp:{number}"
    with cli.refusals():
      meshes = [topologies.read_mesh(text, number)]
  reports = [sweep.one(found, sizes) for sizes in meshes]
  if asked.kernels:
    for sizes, report in zip(meshes, reports):
      local = found.config, sweep.filled(found, sizes), sizes
      report["kernels"] = kernels.records(*local, found.topology)
  return {
    "model": asked.model,
    "parameters": found.count,
    "dtype": found.config.dtype,
    "topology": asked.topology,
    "devices": number,
    "chip": found.topology.chip._asdict(),
    "measured": found.topology.measured,
    "reports": reports,
    "pruned": [topologies.show(sizes) for sizes in pruned],
    "left": [topologies.show(sizes) for sizes in left],
    "best": sweep.best(reports) if asked.sweep else None,
  }


def main() -> None:
  # The host's own devices; a libtpu on the path must not be asked for a TPU.
  jax.config.update("jax_platforms", "cpu")
  folder = pathlib.Path(flags.FLAGS.json).parent
  if not folder.is_dir():
    raise cli.Refused(f"--json={flags.FLAGS.json}: there is no folder {folder}")
  plan = run(Asked(*(flags.FLAGS[name].value for name in Asked._fields)))
  print(tables.text(plan))
  if flags.FLAGS.json:
    text = json.dumps(plan, indent=2) + "\n"
    pathlib.Path(flags.FLAGS.json).write_text(text, encoding="utf-8")


if __name__ == "__main__":
  _DEFINE = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    bool: flags.DEFINE_bool,
  }
  for _name, _value in Asked()._asdict().items():
    _DEFINE[type(_value)](_name, _value, f"See plan.Asked.{_name}.")
  flags.DEFINE_string("json", "", "File for the plan, or none.")
  cli.launch(main)
