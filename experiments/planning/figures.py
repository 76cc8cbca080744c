"""What do the compiled programs say? Memory, costs and bounds in numbers."""

import math
import re
import time
from typing import Any, NamedTuple

import jax

from experiments.planning import programs
from jaxroll import models, parallel
from jaxroll.parallel import chips, costs, hlo

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class Program(NamedTuple):
  """A compiled program.

  Attributes:
    module: its HLO. compile_s: seconds the compiler took.
    memory: bytes of a device: arguments, outputs, aliased, temporaries, code.
    xla: XLA's own analysis, in which a loop counts once.
  """

  module: hlo.Module
  compile_s: float
  memory: dict[str, int]
  xla: dict[str, float]


class Refusal(NamedTuple):
  """The compiler found no room: bytes it needs and has, and its words."""

  needed: float
  available: float
  message: str


def compiled(lowered: jax.stages.Lowered) -> Program | Refusal:
  """Compiles a program.

  Args:
    lowered: from `programs`.

  Returns:
    `Program`, or `Refusal` where the chip's memory does not hold it.
  """
  began = time.perf_counter()
  try:
    done = lowered.compile()
  except jax.errors.JaxRuntimeError as error:
    used = re.search(r"Used ([\d.]+)([KMGT]?) of ([\d.]+)([KMGT]?)", str(error))
    if "RESOURCE_EXHAUSTED" not in str(error) or not used:
      raise
    needed, available = (
      float(n) * _UNITS[unit]
      for n, unit in (used.groups()[:2], used.groups()[2:])
    )
    return Refusal(needed, available, str(error))
  seconds = time.perf_counter() - began
  stats = done.memory_analysis()
  names = ("argument", "output", "alias", "temp", "generated_code")
  memory = {name: getattr(stats, f"{name}_size_in_bytes") for name in names}
  analysis = done.cost_analysis()
  xla = {
    name.replace(" ", "_"): float(analysis[name])
    for name in ("flops", "bytes accessed", "optimal_seconds")
    if name in analysis
  }
  return Program(hlo.parse(done.as_text()), seconds, memory, xla)


def total(program: Program) -> int:
  """Bytes of a device while the program runs."""
  m = program.memory
  return sum(m.values()) - 2 * m["alias"]


# --- costs


def cost_row(found: costs.Costs, chip: chips.Chip, times: int = 1) -> dict:
  """Costs as plain numbers, with the bound.

  Args:
    found: of one run.
    chip: peaks.
    times: runs; the bound is of all of them.

  Returns:
    flops, bytes, wire bytes and collectives of one run; the bound's seconds.
  """
  least = chips.bound(chip, found.flops, found.bytes, found.wire)
  return {
    "flops": found.flops,
    "hbm_bytes": found.bytes,
    "sent_bytes": found.wire,
    "collectives": [
      {
        "kind": c.kind,
        "axes": "x".join(c.axes),
        "count": c.count,
        "bytes": c.bytes,
        "sent_bytes": c.wire,
        "of_weights": c.fixed,
      }
      for c in found.collectives
    ],
    "times": times,
    "seconds_compute": least.compute * times,
    "seconds_hbm": least.hbm * times,
    "seconds_interconnect": least.interconnect * times,
    "seconds": least.seconds * times,
    "bound": least.limit,
  }


def add(first: costs.Costs, second: costs.Costs, times: int) -> costs.Costs:
  """Costs of one thing and of `times` runs of another."""
  more = tuple(
    c._replace(
      count=c.count * times, bytes=c.bytes * times, wire=c.wire * times
    )
    for c in second.collectives
  )
  return costs.Costs(
    first.flops + times * second.flops,
    first.bytes + times * second.bytes,
    first.collectives + more,
    first.open_loops,
  )


# --- the rollout


class Loop(NamedTuple):
  """The decode loop of a rollout's program.

  Attributes:
    instruction: its `while`. slots: rows that one device decodes.
    held: bytes of what it carries or reads, by kind.
  """

  instruction: hlo.Instruction
  slots: int
  held: dict[str, int]


def decode_loop(
  program: Program, work: programs.Work, mesh_shape: dict[str, int]
) -> Loop:
  """Finds the decode loop: of those of unknown length the dearest.

  Args:
    program: of `programs.lower_generate`.
    work: sizes of the step.
    mesh_shape: axis -> size of the mesh.

  Returns:
    `Loop`.
  """
  module = program.module
  found = costs.of_module(module, mesh_shape).open_loops
  loop = max(
    (open_loop.loop for open_loop in found),
    key=lambda i: costs.of_iteration(module, i, mesh_shape).flops,
  )
  columns = work.prompt_length + work.response_length
  held = {"cache": 0, "prefix_table": 0, "row_buffers": 0, "weights": 0}
  slots = 0
  for shape in loop.shapes:
    dims = shape.dims
    if len(dims) == 4 and dims[2] == columns:
      held["cache"] += shape.nbytes
      slots = dims[0]
    elif len(dims) == 4 and dims[2] == work.prompt_length:
      held["prefix_table"] += shape.nbytes
    elif (
      len(dims) == 2
      and dims[1] == work.response_length
      and (dims[0] == -(-work.rows // _shards(mesh_shape)))
    ):
      held["row_buffers"] += shape.nbytes
    elif shape.dtype in ("bf16", "f16", "f32"):
      held["weights"] += shape.nbytes
  return Loop(loop, slots, held)


def _shards(mesh_shape):
  return math.prod(mesh_shape.get(axis, 1) for axis in parallel.ROW_AXES)


def rollout_rows(
  program: Program, work: programs.Work, mesh_shape, chip
) -> tuple[dict, dict]:
  """Prefill and decode as plain numbers.

  Args:
    program: of `programs.lower_generate`.
    work: sizes of the step. mesh_shape: axis -> size. chip: peaks.

  Returns:
    Rows by function, and `Loop.held`. Every row is taken to reach
    `response_length`; its prefix is copied once.
  """
  module = program.module
  loop = decode_loop(program, work, mesh_shape)
  outside = costs.of_module(module, mesh_shape)
  token = costs.of_iteration(module, loop.instruction, mesh_shape)
  local_rows = -(-work.rows // _shards(mesh_shape))
  refills = -(-local_rows // loop.slots)
  copies = costs.Costs(0, 0, (), ())
  for inner in token.open_loops:
    one = costs.of_iteration(module, inner.loop, mesh_shape)
    copies = add(copies, one, 1)
  rows = {
    "prefill": cost_row(outside, chip),
    "decode_token": cost_row(token, chip, refills * work.response_length),
    "copy_prefix": cost_row(copies, chip, local_rows),
  }
  rows["decode_token"]["slots"] = loop.slots
  return rows, loop.held


# --- everything of one mesh


def report(
  config: models.Config, work: programs.Work, mesh, chip: chips.Chip
) -> dict:
  """Compiles a step for a mesh and reads off all figures.

  Args:
    config: of the model. work: sizes of the step.
    mesh: over the topology's devices. chip: what one can do.

  Returns:
    A dict for JSON: "memory" by function and kind, "functions" with costs and
    bounds, "compile", "bounds", "fits".
  """
  model = programs.abstract(config, mesh)
  mesh_shape = dict(mesh.shape)
  params = programs.shard_bytes(model.learner.params)
  state = {
    "parameters": params,
    "optimiser": programs.shard_bytes(model.learner.opt_state),
  }
  out: dict[str, Any] = {
    "mesh": mesh_shape,
    "work": work._asdict(),
    "memory": {},
    "functions": {},
    "compile": {},
  }
  rolled = compiled(programs.lower_generate(model, work, mesh))
  out["compile"]["rollout"] = _compile_row(rolled)
  if isinstance(rolled, Refusal):
    kinds = state | {"all_else": rolled.needed - params}
  else:
    rows, held = rollout_rows(rolled, work, mesh_shape, chip)
    out["functions"] |= rows
    known = sum(held.values())
    rest = total(rolled) - params - known - rolled.memory["generated_code"]
    kinds = state | held
    kinds |= {
      "other": max(rest, 0),
      "program": rolled.memory["generated_code"],
    }
  out["memory"]["rollout"] = _summed(kinds)
  learned = compiled(programs.lower_update(model, work, mesh))
  out["compile"]["update"] = _compile_row(learned)
  if isinstance(learned, Refusal):
    kinds = state | {"all_else": learned.needed - sum(state.values())}
  else:
    found = costs.of_module(learned.module, mesh_shape)
    out["functions"]["update"] = cost_row(found, chip)
    inputs = learned.memory["argument"] - sum(state.values())
    temporaries = learned.memory["temp"]
    kinds = state | {
      "gradients": min(params, temporaries),
      "activations": max(temporaries - params, 0),
      "rows": max(inputs, 0),
      "program": learned.memory["generated_code"],
    }
  out["memory"]["update"] = _summed(kinds)
  out["capacity"] = chip.capacity
  out["fits"] = not any(
    isinstance(p, Refusal) for p in (rolled, learned)
  ) and all(m["total"] <= chip.capacity for m in out["memory"].values())
  out["bounds"] = _bounds(out["functions"], work)
  return out


def _compile_row(program):
  if isinstance(program, Refusal):
    return {
      "refused": f"{program.needed / 2**30:.2f} GiB needed of "
      f"{program.available / 2**30:.2f} GiB",
      "message": program.message[:4000],
    }
  return {"seconds": program.compile_s, "xla_loops_once": program.xla}


def _summed(kinds):
  kinds = {name: int(size) for name, size in kinds.items()}
  return kinds | {"total": sum(kinds.values())}


def _bounds(functions, work):
  """Least seconds of a step and most tokens a second, over the whole mesh."""
  tokens = work.rows * work.response_length
  out = {}
  if "decode_token" in functions:
    names = ("decode_token", "copy_prefix")
    decode = sum(functions[name]["seconds"] for name in names)
    out |= {
      "decode_seconds": decode,
      "decode_tokens_per_s": tokens / decode,
      "prefill_seconds": functions["prefill"]["seconds"],
    }
  if "update" in functions:
    out["update_seconds"] = functions["update"]["seconds"]
  if len(functions) == 4:
    step = sum(row["seconds"] for row in functions.values())
    out |= {"step_seconds": step, "step_tokens_per_s": tokens / step}
  return out
