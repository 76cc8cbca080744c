"""plan --kernels: local shapes, costs counted by hand, the table, a TPU."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from experiments import plan
from experiments.planning import (
  figures,
  kernel_calls,
  kernels,
  models,
  programs,
  tables,
  topologies,
)
from jaxroll.parallel import chips, hlo

ROOT = pathlib.Path(__file__).parent.parent.parent
SIZES = {"fsdp": 2, "tensor": 2}
# Prompts, rows, their lengths, slots and rows of a micro-batch.
WORK = programs.Work(4, 16, 8, 4, 8, 4)


def _config(**changes):
  config = models.config("tiny", dtype="float32", remat="full")
  return plan.dataclasses.replace(config, layers=2, **changes)


def test_arrays_of_one_chip():
  step = kernel_calls.attention(_config(), WORK, SIZES)
  # 8 slots on 2 shards are the rows of one prompt; 4 and 2 heads on 2 chips.
  assert step == (4, 1, 2, 1, 8, 8, 4, "float32")
  # One kv head on four: each chip has it.
  few = _config(heads=8, kv_heads=1)
  step = kernel_calls.attention(few, WORK, {"tensor": 4})
  assert (step.rows, step.groups, step.heads, step.kv_heads) == (8, 2, 2, 1)
  # Three heads are not split.
  odd = kernel_calls.attention(_config(heads=3, kv_heads=3), WORK, SIZES)
  assert (odd.heads, odd.kv_heads) == (3, 3)
  assert kernel_calls.logits(_config(), WORK, SIZES)[:4] == (2, 4, 32, 32)
  whole = kernel_calls.logits(_config(vocab_size=63), WORK, SIZES)
  assert whole.vocabulary == 63


def test_costs_on_the_cpu():
  topology = topologies.Topology(
    "cpu:4", tuple(plan.jax.devices("cpu")[:4]), chips.TPUS["v5e"], True
  )
  found = kernels.records(_config(), WORK, SIZES, topology)
  rows = {(r["name"], r["implementation"]): r for r in found}
  today = rows["shared_prefix_attention", "today"]
  # Attention of one query is in sums on CPUs, which are no products; 2 layers.
  assert today["flops"] == 0 and today["times"] == 2
  # Query, keys and values, and positions.
  assert today["argument_bytes"] == 4 * (
    4 * 2 * 8 + 2 * 4 * 12 * 8 + 4 + 4 * 12
  )
  xla = rows["shared_prefix_attention", "xla"]
  # A tile of 16 places for the one prompt's 8 columns, and 4 of each row.
  assert xla["flops"] == 2 * 2 * 2 * 8 * (16 * 8 + 4 * 4)
  less = today["argument_bytes"] - xla["argument_bytes"]
  temporaries = today["temporary_bytes"] - xla["temporary_bytes"]
  assert xla["saved_bytes"] == 2 * less + temporaries
  assert xla["saved_seconds"] == pytest.approx(
    2 * (today["seconds"] - xla["seconds"])
  )
  # 8 tokens, 32 x 32: logits and two gradients. Of one block the compiler
  # joins the logits that the kernel makes twice.
  assert rows["token_logp", "today"]["flops"] == 3 * 2 * 8 * 32 * 32
  assert rows["token_logp", "xla"]["flops"] == 3 * 2 * 8 * 32 * 32
  assert rows["token_logp", "xla"]["times"] == 4
  assert rows["token_logp", "today"]["saved_bytes"] == 0
  text = "\n".join(tables._kernels(json.loads(json.dumps(found))))
  assert text.count("token_logp") == 2 and "pallas: left out" in text
  found[1] = {"name": "shared_prefix_attention", "implementation": "xla"} | {
    "refused": "20.50 GiB needed of 15.75 GiB"
  }
  assert "refuses: 20.50 GiB" in "\n".join(tables._kernels(found))


def test_a_pallas_call_says_what_it_costs():
  text = """ENTRY %main (a: f32[4,8]) -> f32[4,8] {
  %a = f32[4,8]{1,0} parameter(0)
  ROOT %k = f32[4,8]{1,0} custom-call(%a), custom_call_target="tpu_custom_call", backend_config={"custom_call_config":{"cost_estimate":{"flops":"70","transcendentals":"9","bytes_accessed":"1000"}}}
}"""  # noqa: E501
  # The walk counts the operand and the result once, 128 bytes each.
  assert kernels._pallas(hlo.parse(text)) == (70, 1000 - 256)


def test_without_the_flag_a_plan_is_as_it_was(monkeypatch):
  report = {"functions": {}, "bounds": {}, "memory": {}, "compile": {}}
  monkeypatch.setattr(figures, "report", lambda *_: dict(report))
  monkeypatch.setattr(plan.sweep.advice, "advise", lambda *_: [])
  monkeypatch.setattr(kernels, "records", lambda *_: ["found"])
  asked = plan.Asked(model="tiny", topology="cpu:4", prompts=4, rows=16)
  assert "kernels" not in plan.run(asked)["reports"][0]
  (made,) = plan.run(asked._replace(kernels=True))["reports"]
  assert made["kernels"] == ["found"]


_TPU = """
import json
from experiments.planning import kernels, models, programs, topologies
config = models.config("tiny", dtype="bfloat16", remat="full")
found = kernels.records(
  config,
  programs.Work(4, 16, 8, 4, 8, 4),
  {"fsdp": 2, "tensor": 2},
  topologies.describe("v5e:2x2"),
)
print(json.dumps(found))
"""


@pytest.mark.skipif(
  not (topologies.libtpu_folder() / "libtpu").is_dir(),
  reason=f"no {topologies.LIBTPU} in {topologies.libtpu_folder()}",
)
def test_the_tpu_compiler_takes_the_kernels():
  done = subprocess.run(
    [sys.executable, "-c", _TPU],
    capture_output=True,
    text=True,
    check=False,
    cwd=ROOT,
    env=os.environ | {"JAX_PLATFORMS": "cpu"},
  )
  assert not done.returncode, done.stderr[-2000:]
  found = json.loads(done.stdout.splitlines()[-1])
  rows = {(r["name"], r["implementation"]): r for r in found}
  assert len(rows) == 6
  # 5 products instead of 4: 16 rows a block, 32 x 32.
  assert rows["token_logp", "pallas"]["flops"] == 5 * 2 * 16 * 32 * 32
  step = rows["shared_prefix_attention", "pallas"]
  assert step["flops"] >= 2 * 2 * 2 * 8 * (16 * 8 + 4 * 4)
