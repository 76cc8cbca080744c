"""Records survive kills without gaps or doubles, and compilations are seen."""

import io
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import metrics


def lines_of(workdir) -> list[str]:
  return (workdir / "metrics.jsonl").read_text().splitlines()


def test_one_flat_json_line_a_step(tmp_path):
  with metrics.MetricsWriter(tmp_path) as writer:
    record = {
      "reward": jnp.float32(0.5),
      "half": jnp.bfloat16(1.5),
      "count": np.int64(3),
      "mixed": np.True_,
      "name": "grpo",
      "none": None,
    }
    writer.write(1, record)
    # It has reached the file before the writer is closed.
    assert lines_of(tmp_path) == [
      '{"step": 1, "reward": 0.5, "half": 1.5, "count": 3, "mixed": true, '
      '"name": "grpo", "none": null}'
    ]
    writer.write(2, {"reward": 0.25})
  assert metrics.read_metrics(tmp_path)[1] == {"step": 2, "reward": 0.25}


def test_what_is_not_finite_becomes_null_and_is_counted(tmp_path, caplog):
  with metrics.MetricsWriter(tmp_path) as writer:
    writer.write(7, {"loss": jnp.float32(np.nan), "kl": -np.inf, "ok": 1.0})
    assert writer.nonfinite == 2
  assert json.loads(lines_of(tmp_path)[0]) == {
    "step": 7,
    "loss": None,
    "kl": None,
    "ok": 1.0,
  }
  assert "step 7: not finite: loss, kl" in caplog.text


@pytest.mark.parametrize("value", [np.zeros(2), jnp.zeros((1,)), [1], {}])
def test_arrays_are_refused_by_name(tmp_path, value):
  with metrics.MetricsWriter(tmp_path) as writer:
    with pytest.raises(ValueError, match="metric 'reward' is "):
      writer.write(1, {"reward": value})
  assert lines_of(tmp_path) == []


def test_a_resumed_run_leaves_the_records_of_an_uninterrupted_one(tmp_path):
  (tmp_path / "whole").mkdir()
  (tmp_path / "killed").mkdir()
  with metrics.MetricsWriter(tmp_path / "whole") as writer:
    for step in range(1, 7):
      writer.write(step, {"x": step / 3})
  with metrics.MetricsWriter(tmp_path / "killed") as writer:
    for step in range(1, 5):
      writer.write(step, {"x": step / 3})
  # Killed in the middle of a write; the last checkpoint was of step 2.
  with (tmp_path / "killed" / "metrics.jsonl").open("a") as file:
    file.write('{"step": 5, "x": 1.6')
  assert len(metrics.read_metrics(tmp_path / "killed")) == 4
  with metrics.MetricsWriter(tmp_path / "killed") as writer:
    writer.truncate(2)
    assert [r["step"] for r in metrics.read_metrics(tmp_path / "killed")] == [
      1,
      2,
    ]
    for step in range(3, 7):
      writer.write(step, {"x": step / 3})
  assert lines_of(tmp_path / "killed") == lines_of(tmp_path / "whole")


def test_a_torn_line_does_not_take_the_next_record_with_it(tmp_path):
  (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2, "x')
  with metrics.MetricsWriter(tmp_path) as writer:
    writer.write(2, {"x": 1})
  assert lines_of(tmp_path) == ['{"step": 1}', '{"step": 2, "x": 1}']


def test_starting_over_drops_everything(tmp_path):
  with metrics.MetricsWriter(tmp_path) as writer:
    writer.write(0, {"x": 1})
    writer.truncate(-1)
    assert lines_of(tmp_path) == []
    writer.write(0, {"x": 2})
  assert lines_of(tmp_path) == ['{"step": 0, "x": 2}']


def test_a_broken_line_in_the_middle_is_an_error(tmp_path):
  (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"st\n{"step": 3}\n')
  with pytest.raises(ValueError, match="metrics.jsonl:2 is not JSON"):
    metrics.read_metrics(tmp_path)


def test_no_file_has_no_records(tmp_path):
  assert metrics.read_metrics(tmp_path) == []
  metrics.truncate_records(tmp_path / "transcripts.jsonl", 3)
  assert list(tmp_path.iterdir()) == []


def test_summary_is_replaced_whole(tmp_path):
  metrics.write_summary(tmp_path, {"old": 1})
  summary = {
    "pass@1": np.float32(0.5),
    "by_grade": {3: [jnp.int32(1), np.nan]},
  }
  metrics.write_summary(tmp_path, summary)
  assert json.loads((tmp_path / "summary.json").read_text()) == {
    "pass@1": 0.5,
    "by_grade": {"3": [1, None]},
  }
  with pytest.raises(ValueError, match="metric 'bad' is"):
    metrics.write_summary(tmp_path, {"bad": object()})
  # A failed write leaves the old summary and nothing else.
  assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
  assert json.loads((tmp_path / "summary.json").read_text())["pass@1"] == 0.5


def test_tensorboard_events(tmp_path):
  with metrics.MetricsWriter(tmp_path, tensorboard=True) as writer:
    writer.write(1, {"reward": 0.5, "name": "a name", "loss": np.nan})
    writer.truncate(0)
    writer.write(1, {"reward": 0.75})
  events = b"".join(
    path.read_bytes()
    for path in sorted((tmp_path / "tensorboard").iterdir())
    if "tfevents" in path.name
  )
  assert events.count(b"reward") == 2
  assert b"loss" not in events and b"a name" not in events


def test_missing_tensorboard_says_what_to_install(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, "tensorboardX", None)
  with pytest.raises(ImportError, match=r"pip install jaxroll\[tensorboard\]"):
    metrics.MetricsWriter(tmp_path, tensorboard=True)
  metrics.MetricsWriter(tmp_path).close()  # not needed otherwise


def test_flatten():
  tree = {"a": 1, "b": {"c": {"d": [2]}, "e": {}}}
  assert metrics.flatten(tree) == {"a": 1, "b.c.d": [2], "b.e": {}}


class Screen(io.StringIO):
  """A stream that is a terminal or not."""

  def __init__(self, terminal: bool):
    super().__init__()
    self._terminal = terminal

  def isatty(self):
    return self._terminal


def make_progress(terminal: bool, total: int, **settings):
  clock = iter(range(0, 1000, 5))  # five seconds a step
  screen = Screen(terminal)
  progress = metrics.Progress(
    total, stream=screen, clock=lambda: float(next(clock)), **settings
  )
  return progress, screen


def test_progress_in_a_log_adds_a_line_now_and_then():
  progress, screen = make_progress(False, 800, every=10.0)
  for step in range(1, 6):
    progress.update(step, {"reward": jnp.float32(0.5), "rows": 64})
  progress.close()
  # At 0, 10 and 20 seconds. After step 5: 4 steps took 20 s, 795 are left.
  assert screen.getvalue().splitlines() == [
    "step 1/800  0%  -:--:-- left  reward 0.5  rows 64",
    "step 3/800  0%  1:06:25 left  reward 0.5  rows 64",
    "step 5/800  0%  1:06:15 left  reward 0.5  rows 64",
  ]


def test_progress_shows_the_last_step_whatever_the_time():
  progress, screen = make_progress(False, 2, every=1e9)
  progress.update(1)
  progress.update(2)
  assert screen.getvalue().splitlines() == [
    "step 1/2  50%  -:--:-- left",
    "step 2/2  100%  0:00:00 left",
  ]


def test_progress_on_a_terminal_rewrites_one_line():
  progress, screen = make_progress(True, 4)
  progress.update(1, {"name": "long"})
  progress.update(2)
  progress.close()
  long, short = (
    "step 1/4  25%  -:--:-- left  name long",
    "step 2/4  50%  0:00:10 left",
  )
  # The shorter line covers the longer one.
  assert screen.getvalue() == f"\r{long}\r{short.ljust(len(long))}\n"


@pytest.fixture
def counter():
  counter = metrics.CompileCounter()
  yield counter
  counter.close()


def test_compilations_are_counted(counter):
  x, y = jnp.zeros(3, jnp.float32), jnp.zeros(4, jnp.float32)

  @jax.jit
  def double(x):
    return 2 * x

  mark = counter.count
  double(x)
  assert counter.since(mark) == 1 and "double" in counter.names[mark]
  double(x)
  assert counter.since(mark) == 1
  double(y)  # another shape
  assert counter.since(mark) == 2
  double(jnp.asarray(2.0))  # another type
  assert counter.since(mark) >= 3


def test_a_program_from_the_persistent_cache_counts(counter):
  x = jnp.zeros(3, jnp.float32)
  hits = []

  def listen(event, **_):
    if event == "/jax/compilation_cache/cache_hits":
      hits.append(event)

  def triple(x):
    return jnp.sin(3 * x)

  limit = "jax_persistent_cache_min_compile_time_secs"
  before = jax.config.values[limit]
  jax.monitoring.register_event_listener(listen)
  jax.config.update(limit, 0.0)
  try:
    jax.jit(triple)(x)
    jax.clear_caches()
    mark, hits[:] = counter.count, []
    jax.jit(triple)(x)
  finally:
    jax.config.update(limit, before)
    jax.monitoring.unregister_event_listener(listen)
  assert len(hits) == 1
  assert counter.since(mark) == 1 and "triple" in counter.names[mark]


def test_a_closed_counter_counts_no_more():
  counter = metrics.CompileCounter()
  counter.close()
  jax.jit(lambda x: x + 1)(jnp.zeros(3, jnp.int32))
  assert counter.count == 0
