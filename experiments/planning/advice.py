"""What has to change where a step does not fit? Arithmetic, then advice.

`estimate` needs no compiler: it is what the arrays that must exist take, so
that a mesh it refuses need not be compiled. `advise` reads a report.
"""

import math

import jax

from experiments.planning import programs
from jaxroll import models
from jaxroll.parallel import chips

_GIB = 2**30
# Matrix products of a token: forward, backward twice that, forward again.
_PASSES = 4


def parameters(config: models.Config) -> int:
  """How many numbers a model has."""
  shapes = jax.tree.leaves(programs.parameter_shapes(config))
  return sum(math.prod(x.shape) for x in shapes)


def estimate(
  config: models.Config,
  count: int,
  work: programs.Work,
  sizes: dict[str, int],
  chip: chips.Chip,
) -> dict[str, float]:
  """What a step takes at the least, without a compiler.

  Args:
    config: of the model. count: its parameters. work: sizes of the step.
    sizes: axis -> size of the mesh. chip: peaks.

  Returns:
    Bytes of a device: "parameters", "optimiser", "weights" (whole over the row
    shards, in the type of activations), "cache", "prefix_table"; "rollout" and
    "update", the sums of either half; "seconds" of a step, roughly, by which
    meshes are put in order.
  """
  number = {"float32": 4}.get(config.dtype, 2)
  shards = sizes.get("data", 1) * sizes.get("fsdp", 1)
  tensor = sizes.get("tensor", 1)
  split = tensor if not config.kv_heads % tensor else 1
  column = 2 * config.layers * config.kv_heads * config.head_dim * number
  column /= split
  slots = -(-min(work.slots, work.rows) // shards)
  columns = work.prompt_length + work.response_length
  masters = 4 * count / (sizes.get("fsdp", 1) * tensor)
  weights = number * count / tensor
  cache = slots * columns * column
  table = work.prompts * work.prompt_length * column
  held = 3 * masters
  waves = -(-work.rows // shards // slots)
  decode = waves * work.response_length * (weights + cache) / chip.hbm
  micro = -(-work.rows // work.micro_rows)
  tokens = work.rows * columns
  crossing = 3 * weights * (shards > 1) + 4 * (tensor > 1) * config.layers * (
    2 * number * work.micro_rows / shards * columns * config.embed
  )
  update = max(
    2 * _PASSES * count * tokens / (shards * tensor) / chip.flops,
    micro * crossing / chip.ici,
  )
  return {
    "parameters": masters,
    "optimiser": 2 * masters,
    "weights": weights,
    "cache": cache,
    "prefix_table": table,
    "rollout": held + weights + cache + table,
    "update": held + masters,
    "seconds": decode + update,
  }


def most_slots(config, count, work, sizes, chip) -> int:
  """Slots that fit by `estimate` in four fifths of a device, at most the rows.

  Args: as of `estimate`; `work.slots` is not read.

  Returns:
    The largest of rows, rows / 2, rows / 4 ... that fits, >= 1 a row shard.
  """
  shards = sizes.get("data", 1) * sizes.get("fsdp", 1)
  slots = work.rows
  while slots > shards:
    made = estimate(config, count, work._replace(slots=slots), sizes, chip)
    if made["rollout"] <= 0.8 * chip.capacity:
      break
    slots = -(-slots // 2)
  return max(slots, min(shards, work.rows))


def advise(report: dict, guess: dict[str, float]) -> list[str]:
  """What to change, from a report's numbers.

  Args:
    report: of `figures.report`.
    guess: of `estimate`, for what a refused program does not tell.

  Returns:
    Sentences; none where all is well.
  """
  out = []
  sizes, work = report["mesh"], report["work"]
  shards = sizes["data"] * sizes["fsdp"]
  rollout, update = report["memory"]["rollout"], report["memory"]["update"]
  capacity = report["capacity"]
  excess = rollout["total"] - capacity
  if excess > 0 or "refused" in report["compile"]["rollout"]:
    excess = max(excess, 1)
    out.append(_rollout(rollout, guess, excess, sizes, work, shards))
  excess = update["total"] - capacity
  if excess > 0 or "refused" in report["compile"]["update"]:
    out.append(_update(update, guess, max(excess, 1), sizes, work, shards))
  functions = report["functions"]
  row = functions.get("update")
  if row and row["bound"] == "interconnect" and update["total"] < capacity:
    per_row = update["activations"] * shards / work["micro_rows"]
    room = int((capacity - update["total"]) / max(per_row, 1)) * shards
    more = min(work["micro_rows"] + room, work["rows"])
    if more > work["micro_rows"]:
      ratio = row["seconds_interconnect"] / row["seconds_compute"]
      out.append(
        f"the update waits for the interconnect ({ratio:.1f} times its "
        f"products): weights are gathered and gradients summed once a "
        f"micro-batch; memory is there for about --micro_rows={more}"
      )
  row = functions.get("decode_token")
  if row and any(c["of_weights"] for c in row["collectives"]):
    size = sum(c["bytes"] for c in row["collectives"] if c["of_weights"])
    out.append(
      f"weights are gathered at every token, {size / _GIB:.2f} GiB: use less "
      "fsdp, or more memory for the rollout so that they stay gathered"
    )
  return out


def _rollout(kinds, guess, excess, sizes, work, shards):
  weights = kinds.get("weights", guess["weights"])
  cache = kinds.get("cache", guess["cache"])
  table = kinds.get("prefix_table", guess["prefix_table"])
  ways = []
  if weights > excess:
    factor = 2 ** math.ceil(math.log2(weights / (weights - excess)))
    ways.append(
      f"tensor:{sizes['tensor'] * factor} (weights of the loop "
      f"{weights / factor / _GIB:.2f} instead of {weights / _GIB:.2f} GiB)"
    )
  local = -(-min(work["slots"], work["rows"]) // shards)
  each = cache / local
  fewer = local - math.ceil(excess / each)
  if fewer >= 1:
    ways.append(f"--slots={fewer * shards} ({each / _GIB:.3f} GiB a slot)")
  prompt = table / work["prompts"]
  if table > excess:
    fewer = work["prompts"] - math.ceil(excess / prompt)
    ways.append(
      f"--prompts={fewer} a generation ({prompt / _GIB:.3f} GiB a prompt: the "
      "table of prefixes is whole on every row shard)"
    )
  if not ways:
    ways.append("several of more tensor, fewer slots and a shorter prompt")
  return (
    f"the rollout needs {excess / _GIB:.2f} GiB more than there is: "
    + ", or ".join(ways)
  )


def _update(kinds, guess, excess, sizes, work, shards):
  held = guess["update"]
  ways = []
  if "activations" in kinds and work["micro_rows"] > shards:
    each = kinds["activations"] / work["micro_rows"]
    fewer = work["micro_rows"] - math.ceil(excess / each)
    fewer = fewer // shards * shards
    if fewer >= shards:
      ways.append(f"--micro_rows={fewer} ({each / _GIB:.4f} GiB a row)")
  elif work["micro_rows"] > shards:
    ways.append(f"--micro_rows={shards}, one a row shard")
  if held > excess:
    factor = 2 ** math.ceil(math.log2(held / (held - excess)))
    ways.append(
      f"fsdp:{sizes['fsdp'] * factor} on {factor} times the chips, or in "
      f"place of data (state {held / factor / _GIB:.2f} instead of "
      f"{held / _GIB:.2f} GiB)"
    )
  ways.append(
    f"shorter than {work['prompt_length']} + {work['response_length']} tokens"
  )
  return (
    f"the update needs {excess / _GIB:.2f} GiB more than there is: "
    + ", or ".join(ways)
  )
