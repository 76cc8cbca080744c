"""plan: the CPU's plan end to end, refusals, advice, and the TPU's compiler."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from experiments import cli, plan
from experiments.planning import (
  advice,
  figures,
  models,
  programs,
  tables,
  topologies,
)
from jaxroll.models import families
from jaxroll.parallel import chips

ROOT = pathlib.Path(__file__).parent.parent.parent
TINY = plan.Asked(
  model="tiny",
  topology="cpu:4",
  mesh="fsdp:2,tensor:2",
  layers=1,
  prompts=4,
  rows=16,
  prompt_length=8,
  response_length=4,
  slots=8,
  micro_rows=4,
)


@pytest.fixture(scope="module")
def made():
  """One plan, through JSON as the binary writes it."""
  return json.loads(json.dumps(plan.run(TINY)))


def test_a_plan_of_the_cpu(made):
  (report,) = made["reports"]
  assert made["measured"] and report["fits"]
  assert set(report["functions"]) == {
    "prefill",
    "decode_token",
    "copy_prefix",
    "update",
  }
  token = report["functions"]["decode_token"]
  # 8 slots on 2 shards; 16 rows in two waves of 4 tokens.
  assert token["slots"] == 4 and token["times"] == 2 * 4
  # Products of a token by 4 slots, halved by tensor: q, k, v, o, the three of
  # the feed-forward layer, and the output matrix. Attention of one query is no
  # product on CPUs.
  D, F, H, K, h, V = 32, 64, 4, 2, 8, 64
  layer = 2 * D * H * h + 2 * D * K * h + 3 * D * F
  assert token["flops"] == 2 * 4 * (layer + D * V) // 2
  assert not any(c["of_weights"] for c in token["collectives"])
  assert all(c["axes"] == "tensor" for c in token["collectives"])
  memory = report["memory"]["rollout"]
  # Keys and values, 1 layer, 4 slots, 1 of 2 heads, 12 columns of 8 floats.
  assert memory["cache"] == 2 * 4 * 12 * 8 * 4
  for kinds in report["memory"].values():
    assert kinds["total"] == sum(kinds.values()) - kinds["total"]
    assert kinds["optimiser"] >= 2 * kinds["parameters"]
  bounds = report["bounds"]
  assert bounds["step_tokens_per_s"] < bounds["decode_tokens_per_s"]
  assert bounds["step_seconds"] == pytest.approx(
    sum(row["seconds"] for row in report["functions"].values())
  )


def test_the_table_says_what_the_plan_says(made):
  text = tables.text(made)
  assert "--mesh=fsdp:2,tensor:2: fits" in text
  assert "weights are not gathered inside" in text
  assert "(measured here)" in text


@pytest.mark.parametrize(
  "changes, message",
  [
    ({"model": "gpt"}, "--model=gpt is not known: .*qwen2_5_7b"),
    ({"topology": "v9:2x2"}, "--topology=v9:2x2: write cpu:DEVICES, or .*v6e"),
    ({"topology": "v5p:4x4"}, "v5p needs 3 sizes >= 1, as v5p:4x4x4"),
    ({"topology": "v5e:32x16"}, "v5e has up to 16x16"),
    ({"topology": "cpu:999"}, "has 8 CPU devices"),
    ({"mesh": "fsdp:3"}, "has 3 devices, the topology 4: try fsdp:"),
    ({"mesh": "rows:4"}, "axes of data, fsdp, tensor"),
    ({"rows": 2}, "--rows=2 < --prompts=4"),
    ({"prompts": 0}, "--prompts=0: must be at least 1"),
    ({"sweep": True}, "leave out --mesh="),
    ({"dtype": "int8"}, "dtype='int8'"),
    (
      {"topology": "v5e:2x2", "libtpu": "nowhere"},
      "not in nowhere. Install it there: .*--target nowhere",
    ),
  ],
)
def test_what_cannot_be_planned_is_refused(changes, message):
  with pytest.raises(cli.Refused, match=message):
    plan.run(TINY._replace(**changes))


@pytest.mark.parametrize(
  "name, millions",
  [
    # As their publishers count them.
    ("smollm2_135m", 134.5),
    ("qwen2_5_0_5b", 494.0),
    ("qwen2_5_1_5b", 1543.7),
    ("qwen2_5_7b", 7615.6),
    ("qwen3_8b", 8190.7),
    ("qwen3_30b_a3b", 30532.1),
  ],
)
def test_sizes_of_the_models(name, millions):
  config = models.config(name, dtype="bfloat16", remat="full")
  count = advice.parameters(config)
  assert count / 1e6 == pytest.approx(millions, abs=0.06)
  assert len(families.tensors(config)) >= 11


def _estimate(sizes, **changes):
  config = models.config("qwen2_5_7b", dtype="bfloat16", remat="full")
  work = programs.Work(64, 1024, 1024, 1024, 1024, 16)._replace(**changes)
  chip = chips.TPUS["v5e"]
  count = 7_615_616_512
  return advice.estimate(config, count, work, sizes, chip), work, chip


def test_arithmetic_of_a_mesh():
  sizes = {"data": 1, "fsdp": 16, "tensor": 4}
  guess, work, chip = _estimate(sizes)
  assert guess["parameters"] == 4 * 7_615_616_512 / 64
  assert guess["weights"] == 2 * 7_615_616_512 / 4
  # 64 slots of 2048 columns, 28 layers of keys and values, 1 of 4 heads.
  assert guess["cache"] == 64 * 2048 * 28 * 2 * 128 * 2
  whole, *_ = _estimate({"data": 1, "fsdp": 64, "tensor": 1})
  assert whole["rollout"] > chip.capacity > guess["rollout"]


def test_advice_is_computed_from_the_numbers():
  sizes = {"data": 1, "fsdp": 16, "tensor": 4}
  guess, work, chip = _estimate(sizes, micro_rows=64)
  gib = 2**30
  report = {
    "mesh": sizes,
    "work": work._asdict(),
    "capacity": 16 * gib,
    "compile": {"rollout": {}, "update": {}},
    "functions": {},
    "memory": {
      "rollout": {
        "weights": 4 * gib,
        "cache": 8 * gib,
        "prefix_table": 1 * gib,
        "total": 17 * gib,
      },
      "update": {"activations": 16 * gib, "total": 20 * gib},
    },
  }
  rollout, update = advice.advise(report, guess)
  # 1 GiB too much, a slot takes an eighth of one: 8 fewer on each of 16.
  assert "needs 1.00 GiB more" in rollout
  assert "--slots=896 (0.125 GiB a slot)" in rollout
  assert "tensor:8 (weights of the loop 2.00 instead of 4.00 GiB)" in rollout
  # 4 GiB too much, a row takes a quarter of one: 48.
  assert "needs 4.00 GiB more" in update and "--micro_rows=48" in update
  report["memory"]["rollout"]["total"] = 1
  report["memory"]["update"]["total"] = 1
  assert not advice.advise(report, guess)


def test_a_refusal_of_the_compiler_is_read():
  class Lowered:
    def compile(self):
      import jax

      raise jax.errors.JaxRuntimeError(
        "RESOURCE_EXHAUSTED: TPU compile permanent error. Ran out of memory "
        "in memory space hbm. Used 20.50G of 15.75G hbm."
      )

  found = figures.compiled(Lowered())
  assert found.needed == 20.5 * 2**30 and found.available == 15.75 * 2**30


def test_meshes_of_a_sweep():
  shapes = topologies.shapes(8)
  # Ordered factorisations of 2^3 in three: (3 + 2 choose 2).
  assert len(shapes) == 10
  assert {"data": 2, "fsdp": 2, "tensor": 2} in shapes
  assert topologies.show({"data": 1, "fsdp": 1, "tensor": 1}) == "data:1"


def test_the_tpu_compiler_plans(tmp_path):
  """In a process of its own; the compiler is fetched the first time."""
  folder = topologies.libtpu_folder()
  if not (folder / "libtpu").is_dir():
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--target", str(folder), topologies.LIBTPU]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
      pytest.skip(f"no network: {done.stderr[-300:]}")
  file = tmp_path / "plan.json"
  flags = TINY._replace(topology="v5e:2x2")._asdict()
  command = [sys.executable, "-m", "experiments.plan", f"--json={file}"]
  command += [f"--{k}={v}" for k, v in flags.items() if v not in ("", False)]
  done = subprocess.run(
    command,
    capture_output=True,
    text=True,
    check=False,
    cwd=ROOT,
    env=os.environ | {"JAX_PLATFORMS": "cpu"},
  )
  assert not done.returncode, done.stderr[-2000:]
  made = json.loads(file.read_text(encoding="utf-8"))
  (report,) = made["reports"]
  assert report["fits"] and made["chip"]["flops"] == 197e12
  # One layer's products, halved by tensor, for 4 slots, in bfloat16.
  assert report["functions"]["decode_token"]["flops"] > 0
  assert report["functions"]["update"]["collectives"]
  assert report["memory"]["rollout"]["cache"] == 2 * 4 * 12 * 8 * 2
