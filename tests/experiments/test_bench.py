"""bench: every suite gives its rows, a wrong call is refused."""

import os
import subprocess

import jax
import numpy as np
import pytest

from experiments import cli
from experiments.benchmarks import (
  growth,
  products,
  shapes,
  start,
  suites,
  timing,
)

TINY = shapes.Shapes(
  1,
  embed=16,
  heads=2,
  kv_heads=1,
  ffn=16,
  vocab=32,
  prompt=4,
  new=8,
  rows=16,
  slots=8,
  micro_rows=8,
)
OPTIONS = suites.Options(TINY, "own", repeats=1, steps=60)
FIELDS = {"name", "size", "median_s", "min_s", "max_s", "tokens_per_s"}
FIELDS |= {"tokens", "flops", "flops_per_s", "matmul_share", "compile_s"}
FIELDS |= {"peak_memory_mb", "ratio_tunix", "ratio_trl"}


def measured(suite, **changes):
  rows = suites.run(suite, OPTIONS._replace(**changes))
  for row in rows:
    assert 0 < row.min_s <= row.median_s <= row.max_s
    assert row.tokens_per_s > 0 and row.peak_memory_mb > 0
    assert row.ratio_tunix is None and row.ratio_trl is None
  text = suites.SUITES[suite].table(rows)
  assert all(row.name in text for row in rows)
  return {row.name: row for row in rows}


def test_every_row_carries_every_field():
  assert set(timing.Row._fields) >= FIELDS


# --- suites


def test_rollout():
  rows = measured("rollout")
  assert list(rows) == [
    "rollout_fixed",
    "rollout_ragged_64",
    "rollout_ragged_256",
  ]
  assert rows["rollout_fixed"].tokens == 16 * 8
  # 2 of 32 tokens end a row: (1 - (15/16)^8) * 16 = 6.45 tokens of 8 on
  # average; the standard deviation of one is 2.4.
  for rows_, name in ((64, "rollout_ragged_64"), (256, "rollout_ragged_256")):
    mean = rows[name].tokens / rows_
    assert abs(mean - 6.45) < 5 * 2.4 / rows_**0.5
    assert rows[name].slots == 8
  for row in rows.values():
    assert row.matmul_share > 0 and row.flops > 0 and row.compile_s > 0


def test_update():
  rows = measured("update")
  assert list(rows) == ["update_fixed", "update_ragged"]
  assert rows["update_fixed"].tokens == 16 * (4 + 8)
  lengths = shapes.batch(TINY, ragged=True).length
  assert rows["update_ragged"].tokens == 16 * 4 + lengths.sum()


def test_step_compiles_once_and_its_sampler_is_the_trainers():
  (row,) = measured("step", only="step_ragged").values()
  assert row.compiles == 0
  assert row.sampler_gap_max <= row.sampler_gap_limit
  assert row.sampler_gap_mean <= 3e-6


def test_a_soak_keeps_nothing():
  (row,) = measured("soak").values()
  assert row.compiles == 0
  assert row.growth_mb < 24, "60 tiny steps must not add memory"


def test_growth_doubles_every_axis_in_processes_of_their_own(monkeypatch):
  names = [name for name, _ in growth.points(TINY)]
  assert len(names) == 1 + 3 * len(growth.AXES)
  assert names[:4] == [
    "growth base",
    "growth rows=32",
    "growth rows=64",
    "growth rows=128",
  ]
  monkeypatch.setenv(
    "JAX_COMPILATION_CACHE_DIR", jax.config.jax_compilation_cache_dir
  )
  # By the binary, whose JSON has the fields of a row and no others.
  (row,) = growth.growth(TINY, "own", repeats=1, doublings=0)
  assert row.name == "growth base" and row.tokens == 16 * 8
  assert row.peak_memory_mb > 10
  twice = row._replace(name="growth rows=32", median_s=2 * row.median_s)
  assert " 2.00 " in growth.table([row, twice]).splitlines()[2]


def test_start_reads_when_the_first_step_was_recorded(monkeypatch, tmp_path):
  caches = []

  def run(command, *, env, **options):
    (workdir,) = [x[10:] for x in command if x.startswith("--workdir=")]
    os.mkdir(workdir)
    file = os.path.join(workdir, "metrics.jsonl")
    with open(file, "w", encoding="utf-8") as written:
      written.write("{}\n")
    caches.append(env["JAX_COMPILATION_CACHE_DIR"])
    return subprocess.CompletedProcess(command, 0)

  monkeypatch.setattr(start.subprocess, "run", run)
  rows = start.start(2)
  assert [row.name for row in rows] == ["start_cold", "start_warm"]
  assert all(-0.1 < row.median_s < 5 for row in rows)
  # A pair shares a cache that no other pair has.
  assert caches[0] == caches[1] != caches[2] == caches[3]


# --- what is counted


def test_sizes_have_the_parameters_they_are_known_by():
  tiny, mid = (shapes.parameters(shapes.SIZES[x]) for x in ("tiny", "mid"))
  # Layer: q, o 128 * 128, k, v 128 * 64, three of 128 * 512; 4 of them, and
  # embedding and head of 512 * 128.
  assert tiny == 4 * (2 * 128 * 128 + 2 * 128 * 64 + 3 * 128 * 512) + 2 * 65536
  assert round(tiny / 1e6, 1) == 1.1 and round(mid / 1e6, 1) == 51.4


def test_flops_of_a_row():
  of = TINY._replace(prompt=3)
  # Layer 16 * 16 * 2 + 16 * 8 * 2 + 3 * 16 * 16 = 1536 weights, head 16 * 32;
  # two tokens after a prompt of 3 see 4 and 5: 4 * 16 each.
  assert shapes.weights(of) == (1536, 512)
  assert shapes.row_flops(of, [2]) == 2 * (1536 + 512) * 2 + 4 * 16 * 9
  # The prompt's own see 1, 2 and 3.
  assert shapes.prompt_flops(of, 2) == 2 * (2 * 1536 * 3 + 4 * 16 * 6)


def test_ragged_rows_have_the_length_that_was_asked_for():
  batch = shapes.batch(shapes.SIZES["tiny"]._replace(rows=4096), ragged=True)
  # A geometric length of p = 1/16 cut at 64: (1 - (15/16)^64) * 16 = 15.74.
  assert abs(batch.length.mean() - 15.74) < 5 * 14 / 4096**0.5
  ends = batch.tokens[np.arange(4096), batch.length - 1]
  assert np.all((ends >= 480) == (batch.length < 64) | (ends >= 480))


def test_bare_products_take_longer_backward():
  # Of a size at which time is arithmetic, not dispatch.
  of = TINY._replace(embed=256, ffn=512, vocab=512)
  forward = products.seconds(of, 512, 512)
  assert 0 < forward < products.seconds(of, 512, 512, backward=True)


# --- what is refused


def test_unknown_names_are_refused_with_the_choices():
  with pytest.raises(cli.Refused, match="--suite=x .* allocate, growth, roll"):
    suites.run("x", OPTIONS)
  with pytest.raises(cli.Refused, match="--size=x .* one of tiny, mid"):
    suites.sized("x", {})
  with pytest.raises(cli.Refused, match="--only=x: no case of update_fixed"):
    suites.run("update", OPTIONS._replace(only="x"))


def test_a_size_is_named_with_its_changes():
  of, name = suites.sized("tiny", {"rows": 128, "new": 16})
  assert (of.rows, of.new, of.layers) == (128, 16, 4)
  assert name == "tiny,rows=128,new=16"


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"rows": 12}, "rows=12: must be a multiple of 8"),
    ({"new": 0}, "new=0: must be at least 1"),
    ({"slots": -1}, "slots=-1: must be at least 1, or 0"),
    ({"stop_fraction": 0.9}, "stop_fraction=0.9: must be in"),
    ({"stop_fraction": 0.01}, "at least 1"),
    ({"heads": 3}, "embed=16 must be a multiple of heads=3"),
    ({"kv_heads": 4}, "heads=2 is not a multiple of kv_heads=4"),
    ({"dtype": "int8"}, "dtype='int8'"),
  ],
)
def test_shapes_that_nothing_can_have_are_refused(changes, message):
  with pytest.raises(cli.Refused, match=message):
    suites.check("rollout", OPTIONS._replace(of=TINY._replace(**changes)))


def test_numbers_out_of_range_are_refused():
  with pytest.raises(cli.Refused, match="sizes must be >= 100"):
    suites.check("allocate", OPTIONS._replace(sizes=(10,)))
  with pytest.raises(cli.Refused, match="repeats >= 1"):
    suites.check("update", OPTIONS._replace(repeats=0))
  with pytest.raises(cli.Refused, match="steps=9: must be at least 10"):
    suites.run("soak", OPTIONS._replace(steps=9))


# --- what is written


def test_a_profile_is_a_trace_of_each_case(tmp_path):
  measured("rollout", only="rollout_fixed", profile=str(tmp_path))
  folder = tmp_path / "rollout_fixed"
  assert list(folder.rglob("*.xplane.pb"))
  assert list(folder.rglob("perfetto_trace.json.gz"))
