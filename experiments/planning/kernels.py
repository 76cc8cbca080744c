"""What does each of the library's kernels save? Compiled for one chip.

`jaxroll.kernels` beside what a step does today, on the arrays that one chip of
a mesh has: one layer of one decode step, and log-probs of one micro-batch with
their gradients. Nothing here is sent between chips.

Costs are those of `figures`, with what a Pallas call says of itself: its
operations, and what it reads again of its operands, which lie in HBM once.
Loops over tiles of rows run as often as groups of equal size need. Every prompt
and every response has all of its columns.
"""

import re

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from experiments.planning import figures, kernel_calls, programs, topologies
from jaxroll import models
from jaxroll.parallel import chips, costs

_ESTIMATE = re.compile(
  r'"cost_estimate":\{"flops":"(\d+)".*?"bytes_accessed":"(\d+)"'
)


def records(
  config: models.Config,
  work: programs.Work,
  sizes: dict[str, int],
  topology: topologies.Topology,
) -> list[dict]:
  """Both kernels in every implementation that the topology's compiler takes.

  Args:
    config: of the model. work: sizes of the step, none of them 0.
    sizes: axis -> size of the mesh. topology: its first device is compiled for.

  Returns:
    Dicts for JSON, what the library does today first: "name",
    "implementation" ("today", "xla", on TPUs "pallas"), "shapes", costs of one
    call, its bound's "seconds" and "bound"; "times", calls of a decode step or
    an update, and over all of these "saved_seconds"; "saved_bytes" of the chip:
    arguments of every layer, temporaries once. The table of prefixes, which
    lies there today too, counts as the kernel's. "refused" instead of costs
    where the chip's memory does not hold it.
  """
  step = kernel_calls.attention(config, work, sizes)
  tokens = kernel_calls.logits(config, work, sizes)
  micro_batches = -(-work.rows // min(work.micro_rows, work.rows))
  cases = (
    (
      "shared_prefix_attention",
      step,
      config.layers,
      lambda how: kernel_calls.attention_call(step, how),
    ),
    (
      "token_logp",
      tokens,
      micro_batches,
      lambda how: kernel_calls.logits_call(tokens, config, how),
    ),
  )
  names = (
    (kernel_calls.TODAY, "xla")
    if topology.measured
    else (kernel_calls.TODAY, "xla", "pallas")
  )
  out = []
  for name, local, times, call in cases:
    # Arrays of a layer's call lie there for every layer, a micro-batch's not.
    held = times if local is step else 1
    today = {}
    for how in names:
      row = {"name": name, "implementation": how, "times": times}
      row |= {"shapes": local._asdict()}
      row |= _cost(*call(how), step, topology)
      today = today or row
      if "refused" not in today and "refused" not in row:
        less = {key: today[key] - row[key] for key in _COSTS}
        row["saved_bytes"] = (
          held * less["argument_bytes"] + less["temporary_bytes"]
        )
        row["saved_seconds"] = times * less["seconds"]
      out.append(row)
  return out


_COSTS = ("argument_bytes", "temporary_bytes", "seconds")


def _cost(fn, arguments, step, topology):
  """Compiles for one device, and adds up."""
  mesh = Mesh(np.array(topology.devices[:1]), ("chip",))
  whole = NamedSharding(mesh, PartitionSpec())
  shapes = [jax.ShapeDtypeStruct(*x, sharding=whole) for x in arguments]
  # Says for which TPU Pallas lowers: there is none among the backends.
  with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
    program = figures.compiled(jax.jit(fn).lower(*shapes))
  if isinstance(program, figures.Refusal):
    needed, available = program.needed / 2**30, program.available / 2**30
    return {"refused": f"{needed:.2f} GiB needed of {available:.2f} GiB"}
  found = costs.of_module(program.module, {"chip": 1})
  for loop in found.open_loops:
    one = costs.of_iteration(program.module, loop.loop, {"chip": 1})
    found = figures.add(found, one, _tiles(loop.loop, step))
  flops, again = _pallas(program.module)
  flops, moved = flops + found.flops, again + found.bytes
  least = chips.bound(topology.chip, flops, moved, 0)
  return {
    "argument_bytes": program.memory["argument"],
    "temporary_bytes": program.memory["temp"],
    "hbm_bytes": moved,
    "flops": flops,
    "seconds": least.seconds,
    "bound": least.limit,
  }


def _tiles(loop, step):
  """Runs of the loop over tiles, which carries f32[tiles, K, R G, h]."""
  found = [s.dims for s in loop.shapes if s.dtype == "f32" and len(s.dims) == 4]
  if not found:
    raise ValueError(f"a loop of unknown length is not of tiles: {loop.shapes}")
  rows = found[0][2] * step.kv_heads // step.heads
  return step.groups * -(-step.rows // (step.groups * rows))


def _pallas(module):
  """Operations of Pallas calls, and bytes that they read more than once."""
  flops = again = 0
  for computation in module.computations.values():
    for i in computation.values():
      said = i.opcode == "custom-call" and _ESTIMATE.search(i.text)
      if said:
        shapes = [s for name in i.operands for s in computation[name].shapes]
        once = sum(s.nbytes for s in (*shapes, *i.shapes))
        flops += int(said[1])
        again += max(int(said[2]) - once, 0)
  return flops, again
