"""Totals, files and warnings of a run, without a run."""

import io
import json
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import artifacts, watch
from jaxroll import evaluate, metrics, report, rollout, types
from jaxroll.train import Output


def record_of(step, **values):
  return {
    "step": step,
    "optimiser_steps": 1,
    "rollouts": 8,
    "generated_tokens": 40,
    "trained_tokens": 30,
    "zero_variance_share": 0.5,
    "mixed_rollout_share": 0.25,
    "sampler_gap_max": 1e-6,
    "skipped_nonfinite": 0,
    "compiles": 0,
    "process_step": step,
    "wall_seconds": 10.0 * step,
  } | values


def evaluation_of(once, some):
  return {
    "eval/pass@1": once,
    "eval/pass@1_se": once / 10,
    "eval/pass@k": some,
    "eval/pass@k_se": some / 10,
    "eval_k": 4,
  }


def test_summary_of_three_steps():
  summary = artifacts.summarise(
    [
      {"step": 0, "wall_seconds": 5.0} | evaluation_of(0.25, 0.5),
      record_of(1, compiles=3) | evaluation_of(0.5, 0.625),
      record_of(2, rollouts=24, mixed_rollout_share=0.75, trained_tokens=10),
      record_of(
        3,
        zero_variance_share=0.125,
        sampler_gap_max=3e-6,
        skipped_nonfinite=2,
        optimiser_steps=0,
      )
      | evaluation_of(0.75, 1.0),
    ]
  )
  assert summary == {
    "steps": 3,
    "optimiser_steps": 2,
    "rollouts": 40,  # 8 + 24 + 8
    "generated_tokens": 120,
    "trained_tokens": 70,
    "wasted_tokens": 50,
    "eval_before": {
      "step": 0,
      "pass@1": 0.25,
      "pass@1_standard_error": 0.025,
      "k": 4,
      "pass@k": 0.5,
      "pass@k_standard_error": 0.05,
    },
    "eval_after": {
      "step": 3,
      "pass@1": 0.75,
      "pass@1_standard_error": 0.075,
      "k": 4,
      "pass@k": 1.0,
      "pass@k_standard_error": 0.1,
    },
    "zero_variance_share": 0.375,  # (0.5 + 0.5 + 0.125) / 3
    "mixed_rollout_share": 0.55,  # (2 + 18 + 2) / 40
    "sampler_gap_max": 3e-6,
    "skipped_nonfinite": 2,
    "compiles_after_first_step": 0,
    "resumed_after": [],
    "wall_seconds": 30.0,
  }


def test_compiles_are_those_after_each_process_first_step():
  first = {"step": 0, "wall_seconds": 1.0} | evaluation_of(0.25, 0.5)
  steps = [
    record_of(1, compiles=7),
    record_of(2, compiles=1),
    record_of(3, compiles=5, process_step=1),
    record_of(4, compiles=2, process_step=2),
  ]
  summary = artifacts.summarise([first, *steps])
  assert summary["compiles_after_first_step"] == 3
  assert summary["resumed_after"] == [2]


TASK = types.Task(*[None] * len(types.Task._fields))._replace(
  decode=lambda ids: " ".join(str(int(i)) for i in ids)
)


def output_of(step):
  """A step of two prompts."""
  ids = jnp.array([step, step + 1], jnp.int32)
  return Output(
    metrics={},
    prompts=types.Prompts(id=ids, occurrence=jnp.zeros_like(ids), data=()),
    counts=jnp.array([2, 2 + step], jnp.int32),
    solve_rate=jnp.array([0.5, step / 8], jnp.float32),
    rollouts=None,
    outcome=None,
  )


def test_allocation_is_read_back_and_cut_at_a_step(tmp_path):
  record = artifacts.Record(tmp_path, TASK)
  for step in (1, 2, 3):
    record.allocation(step, output_of(step))
  record.save()
  again = artifacts.Record(tmp_path, TASK)
  again.truncate(2)
  again.allocation(3, output_of(5))
  again.save()
  with np.load(tmp_path / "allocation.npz") as saved:
    np.testing.assert_array_equal(saved["step"], [1, 2, 3])
    np.testing.assert_array_equal(saved["id"], [[1, 2], [2, 3], [5, 6]])
    np.testing.assert_array_equal(saved["count"], [[2, 3], [2, 4], [2, 7]])
    np.testing.assert_array_equal(
      saved["solve_rate"], [[0.5, 0.125], [0.5, 0.25], [0.5, 0.625]]
    )


def samples_of(rewards):
  """Two rows for each prompt; prompt n is n, its rows are n n."""
  number = len(rewards)
  rows = rollout.empty(2 * number, 3)
  prompt = jnp.repeat(jnp.arange(number, dtype=jnp.int32), 2)
  tokens = jnp.zeros((2 * number, 3), jnp.int32).at[:, :2].set(prompt[:, None])
  return evaluate.Samples(
    correct=np.zeros((number, 2), bool),
    scored=np.ones((number, 2), bool),
    prompts=None,
    contexts=types.Contexts(
      tokens=jnp.arange(number, dtype=jnp.int32)[:, None],
      length=jnp.ones(number, jnp.int32),
    ),
    rollouts=rows.replace(tokens=tokens, length=jnp.full(2 * number, 2)),
    outcome=types.Outcome(
      reward=jnp.repeat(jnp.array(rewards, jnp.float32), 2),
      status=jnp.zeros(2 * number, jnp.int32),
    ),
  )


def test_transcripts_are_the_first_rows_of_prompts_and_cut_at_a_step(tmp_path):
  record = artifacts.Record(tmp_path, TASK)
  record.transcripts(0, samples_of([1.0, 0.0]))
  record.transcripts(2, samples_of([0.5]))
  record.truncate(1)
  lines = (tmp_path / "transcripts.jsonl").read_text().splitlines()
  shown = {"length": 2, "stopped": False}
  assert [json.loads(line) for line in lines] == [
    {"step": 0, "prompt": "0", "completion": "0 0", "reward": 1.0} | shown,
    {"step": 0, "prompt": "1", "completion": "1 1", "reward": 0.0} | shown,
  ]


@pytest.fixture
def warned(caplog):
  """Steps through metrics; returns what each step warned of."""
  caplog.set_level(logging.WARNING)

  def run(watching, steps):
    texts = []
    for number, values in enumerate(steps, start=1):
      caplog.clear()
      defaults = {"skipped_nonfinite": 0, "truncated_share": 0.0, "rollouts": 8}
      watching(number, defaults | values)
      texts.append(caplog.text)
    return texts

  return run


def test_truncation_is_said_once_a_streak(warned):
  shares = [1.0, 0.9, 0.89, 1.0, 0.95, 0.9, 1.0, 0.5, 1.0, 1.0, 1.0]
  texts = warned(watch.Watch(), [{"truncated_share": s} for s in shares])
  assert [n for n, text in enumerate(texts, start=1) if text] == [6, 11]
  assert "90% OF THE ROLLOUTS WERE CUT OFF" in texts[5]
  assert "response_length" in texts[5] and "warm_start.steps" in texts[5]


def test_a_step_without_rollouts_is_in_no_streak(warned):
  cut, none = {"truncated_share": 1.0}, {"truncated_share": 0.0, "rollouts": 0}
  texts = warned(watch.Watch(), [cut, cut, none, cut, none, cut])
  assert [bool(text) for text in texts] == [False] * 3 + [True] + [False] * 2


def test_skipped_steps_are_said_when_they_grow(warned):
  counts = [2, 2, 3, 3, 5]
  texts = warned(
    watch.Watch(skipped=2), [{"skipped_nonfinite": n} for n in counts]
  )
  assert [bool(text) for text in texts] == [False, False, True, False, True]
  assert "3 optimiser steps were skipped" in texts[2]
  assert "lower learning_rate" in texts[2]


def test_arrays_are_numbers_too(warned):
  values = {"skipped_nonfinite": jax.numpy.int32(1)}
  assert "1 optimiser steps" in warned(watch.Watch(), [values])[0]


def run_of(workdir, records):
  steps = [{"step": n} | record for n, record in enumerate(records, start=1)]
  return report.Run(workdir, steps, {})


def test_speed_is_of_the_steps_that_compiled_nothing(tmp_path):
  records = [
    {"mean_length": 3.0, "tokens_per_second": 5.0, "compiles": 1},
    {"mean_length": 4.0, "tokens_per_second": 900.0, "compiles": 0},
    {"mean_length": 5.0, "tokens_per_second": 800.0, "compiles": 0},
  ]
  figure, caption = report.length_figure(run_of(tmp_path, records))
  length, speed = figure.axes
  assert length.lines[0].get_ydata().tolist() == [3, 4, 5]
  assert speed.lines[0].get_xdata().tolist() == [2, 3]
  assert speed.lines[0].get_ydata().tolist() == [900, 800]
  assert "compiled nothing" in caption


@pytest.mark.parametrize("kl, top", [(2e-16, 1e-6), (0.5, 0.5)])
def test_rounding_is_not_shown_as_a_divergence(tmp_path, kl, top):
  records = [{"kl": 0.0}, {"kl": kl}, {"kl": 0.0}]
  figure, _ = report.optimisation_figure(run_of(tmp_path, records))
  low, high = figure.axes[1].get_ylim()
  assert low == 0 and top <= high <= 1.1 * top


class Terminal(io.StringIO):
  def isatty(self):
    return True


def test_a_note_has_a_line_of_its_own():
  for stream in (Terminal(), io.StringIO()):
    progress = metrics.Progress(4, stream=stream, every=0, clock=lambda: 0.0)
    progress.note("begin")
    progress.update(1)
    progress.note("note")
    progress.update(4)
    # What a terminal shows: each line from its last return on.
    shown = [s.split("\r")[-1] for s in stream.getvalue().split("\n")]
    assert [s.rstrip() for s in shown if s.strip()] == [
      "begin",
      *([] if stream.isatty() else ["step 1/4  25%  -:--:-- left"]),
      "note",
      "step 4/4  100%  0:00:00 left",
    ]


def test_a_run_without_its_checkpoints_is_not_started_over(tmp_path):
  artifacts.check_never_trained(tmp_path)
  with metrics.MetricsWriter(tmp_path) as writer:
    writer.write(0, {"eval/pass@1": 0.5})
    artifacts.check_never_trained(tmp_path)
    writer.write(1, {"reward": 0.5})
  with pytest.raises(ValueError, match="1 steps but no checkpoint"):
    artifacts.check_never_trained(tmp_path)
