"""The binary from flags to report: files, totals, no second compile."""

import gzip
import json
import re

import numpy as np
import pytest

from jaxroll import metrics
from tests.experiments import tiny

STEPS, PROMPTS, ROLLOUTS = 4, tiny.FIELDS["prompts"], tiny.FIELDS["rollouts"]
RUNS = {
  "uniform": ("--config.recipe=uniform", "--config.select="),
  "vigor": ("--config.recipe=vigor", "--config.select="),
  "pilot_commit+vade": (),
}
# Of a budget of 32 rows for 4 prompts; VIGOR has rounds of 4, 4, 4 and 8 rows
# and twice as many are too many.
SPENT = {"uniform": ROLLOUTS, "vigor": 20}
PLOTS = ("reward", "allocation", "variance", "length", "optimisation")


@pytest.fixture(scope="module", params=RUNS)
def run(request, tmp_path_factory):
  """A finished run: its name, directory, summary, records and output."""
  workdir = tmp_path_factory.mktemp("run")
  flags = RUNS[request.param] + (f"--config.steps={STEPS}",)
  process = tiny.finished(workdir, *flags)
  summary = json.loads((workdir / "summary.json").read_text())
  return (
    request.param,
    workdir,
    summary,
    metrics.read_metrics(workdir),
    process,
  )


def test_nothing_compiles_after_the_first_step(run):
  _, _, summary, records, _ = run
  assert summary["compiles_after_first_step"] == 0
  assert records[1]["compiles"] > 0  # the counter counts
  assert [r["compiles"] for r in records[2:]] == [0] * (STEPS - 1)


def test_one_flat_record_a_step(run):
  _, _, _, records, _ = run
  assert [r["step"] for r in records] == list(range(STEPS + 1))
  for record in records:
    assert all(
      isinstance(x, (int, float)) and np.isfinite(x) for x in record.values()
    )
  evaluated = [r["step"] for r in records if "eval/pass@1" in r]
  assert evaluated == [0, 2, 4]
  wall = [r["wall_seconds"] for r in records]
  assert wall == sorted(wall)
  # The first step compiles, an evaluation counts to no step.
  assert all(0 < r["seconds"] < records[1]["seconds"] for r in records[2:])


def test_totals_are_those_of_the_records(run):
  name, _, summary, records, _ = run
  steps = records[1:]
  for total in ("rollouts", "generated_tokens", "trained_tokens"):
    assert summary[total] == sum(r[total] for r in steps)
  if name == "pilot_commit+vade":
    # Pilots that are never committed are generated and not trained on.
    assert summary["wasted_tokens"] > 0
  else:
    assert summary["rollouts"] == STEPS * SPENT[name]
    assert summary["wasted_tokens"] == 0
  assert summary["wasted_tokens"] == (
    summary["generated_tokens"] - summary["trained_tokens"]
  )
  assert summary["steps"] == STEPS
  np.testing.assert_allclose(
    summary["zero_variance_share"],
    np.mean([r["zero_variance_share"] for r in steps]),
  )
  assert summary["eval_before"]["pass@1"] == records[0]["eval/pass@1"]
  for after, field in (
    ("pass@1", "eval/pass@1"),
    ("pass@1_standard_error", "eval/pass@1_se"),
    ("pass@k", "eval/pass@k"),
    ("pass@k_standard_error", "eval/pass@k_se"),
  ):
    assert summary["eval_after"][after] == records[-1][field]


def test_the_summary_says_what_was_run(run):
  name, _, summary, _, _ = run
  assert summary["recipe"] == name.removesuffix("+vade")
  assert summary["seed"] == 0
  assert summary["config"]["steps"] == STEPS
  assert summary["config"]["model"]["embed"] == 32
  assert 0 < summary["wall_seconds"] < 600


def test_the_allocation_agrees_with_the_records(run):
  name, workdir, _, records, _ = run
  with np.load(workdir / "allocation.npz") as saved:
    count, rate, ids = saved["count"], saved["solve_rate"], saved["id"]
    np.testing.assert_array_equal(saved["step"], range(1, STEPS + 1))
  assert count.shape == rate.shape == ids.shape == (STEPS, PROMPTS)
  np.testing.assert_array_equal(
    count.sum(axis=1), [r["rollouts"] for r in records[1:]]
  )
  np.testing.assert_array_equal(
    count.max(axis=1), [r["most_rows_a_prompt"] for r in records[1:]]
  )
  assert ((rate >= 0) & (rate <= 1)).all()
  assert all(len(set(row)) == PROMPTS for row in ids)
  if name == "uniform":
    assert (count == ROLLOUTS // PROMPTS).all()
  if name == "vigor":
    assert all(sorted(row) == [1, 1, 3, 15] for row in count)


def test_report_plots_and_transcripts(run):
  _, workdir, summary, _, _ = run
  page = (workdir / "report.html").read_text()
  assert "Not shown" not in page
  shown = summary["eval_after"]["pass@1"]
  assert f"<div>{shown:.4g}</div>" in page
  for name in PLOTS:
    picture = (workdir / "plots" / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 5000
  lines = (workdir / "transcripts.jsonl").read_text().splitlines()
  transcripts = [json.loads(line) for line in lines]
  number = tiny.FIELDS["eval_prompts"]
  assert [t["step"] for t in transcripts] == [
    step for step in (0, 2, 4) for _ in range(number)
  ]
  for transcript in transcripts:
    left, right = re.findall(r"\d", transcript["prompt"])
    right_answer = f"{int(left) + int(right)}<stop>"
    assert transcript["reward"] == (transcript["completion"] == right_answer)


def test_what_a_user_sees(run):
  name, workdir, _, _, process = run
  lines = process.stderr.splitlines()
  assert lines[-1] == f"report: {workdir / 'report.html'}"
  assert f"recipe {name.removesuffix('+vade')}" in lines
  progress = [line for line in lines if line.startswith(f"step {STEPS}/")]
  assert len(progress) == 1 and "100%" in progress[0]
  for field in ("reward", "zero_variance_share", "tokens_per_second"):
    assert re.search(rf"  {field} [\d.e+]+", progress[0])
  evaluations = [line for line in lines if line.startswith("evaluation after")]
  assert len(evaluations) == 3
  # The libraries' own talk would drown all this.
  assert not [line for line in lines if re.match(r"I\d{4} ", line)]
  tails = [line for line in lines if "fewer than 4 rows per slot" in line]
  assert len(tails) == (name == "vigor")


def test_a_trace_of_one_step(tmp_path):
  """Of the last, since there is no third; and the other noise of sampling."""
  tiny.finished(
    tmp_path,
    f"--profile={tmp_path / 'traces'}",
    "--config.noise=icdf",
    "--config.steps=2",
  )
  (trace,) = tmp_path.glob("traces/**/perfetto_trace.json.gz")
  events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
  assert any("while" in event.get("name", "") for event in events)


def test_eight_devices(tmp_path):
  tiny.finished(
    tmp_path,
    "--config.recipe=vigor",
    "--config.select=",
    "--config.steps=2",
    "--config.mesh.data=2",
    "--config.mesh.fsdp=2",
    "--config.mesh.tensor=2",
    devices=8,
  )
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert summary["rollouts"] == 2 * SPENT["vigor"]
  assert summary["compiles_after_first_step"] == 0
  assert summary["eval_after"]["step"] == 2
  assert summary["sampler_gap_max"] < 1e-3
  # The parameters lie over the mesh, as the checkpoint remembers.
  shardings = list((tmp_path / "checkpoints/2/state").glob("_sharding"))
  assert len(shardings) == 1
  assert "tensor" in shardings[0].read_text()
