"""A run that is killed, damaged or grown is the run that was not, bitwise."""

import json
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import build, cli, train
from jaxroll import checkpoint, metrics
from jaxroll import train as train_lib
from tests.experiments import tiny

STEPS = tiny.FIELDS["steps"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """The run that nothing happened to."""
  workdir = tmp_path_factory.mktemp("whole")
  tiny.finished(workdir)
  return workdir


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
  """The same run, killed four times and grown once; with what was seen."""
  workdir, seen = tmp_path_factory.mktemp("killed"), {}
  for moment, *options in (
    ("warm_start",),
    ("between",),
    ("saving", "--config.checkpoint_every=1"),
    ("saved",),
  ):
    process = tiny.launch(
      workdir,
      f"--moment={moment}",
      "--resume",
      *options,
      module="tests.experiments.killed",
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    names = {path.name for path in (workdir / "checkpoints").iterdir()}
    steps = [record["step"] for record in metrics.read_metrics(workdir)]
    seen[moment] = (names, steps)
  tiny.finished(workdir, "--resume", "--config.steps=8")
  tiny.finished(workdir, "--resume")
  return workdir, seen


@pytest.fixture
def copy(whole, tmp_path):
  """The whole run, to be damaged."""
  return shutil.copytree(whole, tmp_path / whole.name)


def state_of(workdir):
  """The newest state and its step."""
  config = tiny.get_config()
  task = build.task(config.task)
  lm = build.policy(config.model, task.vocab_size)
  sizes = build.sizes(config, task)
  template = jax.eval_shape(
    lambda: train_lib.init_state(
      build.rules(config, sizes),
      lm,
      build.optimiser(config),
      sizes,
      jax.random.key(0),
    )
  )
  with checkpoint.Checkpoints(workdir / "checkpoints") as checkpoints:
    restored = checkpoints.restore(template)
  return restored.state, restored.step


def raw_leaves(state):
  def raw(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
      leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).tobytes()

  leaves = jax.tree_util.tree_leaves_with_path(state)
  return {jax.tree_util.keystr(path): raw(leaf) for path, leaf in leaves}


def assert_same_run(workdir, whole):
  state, step = state_of(workdir)
  expected, _ = state_of(whole)
  assert step == STEPS
  leaves, wanted = raw_leaves(state), raw_leaves(expected)
  assert leaves.keys() == wanted.keys()
  assert [name for name in leaves if leaves[name] != wanted[name]] == []
  assert tiny.untimed(workdir) == tiny.untimed(whole)
  name = "transcripts.jsonl"
  assert (workdir / name).read_text() == (whole / name).read_text()
  with (
    np.load(workdir / "allocation.npz") as found,
    np.load(whole / "allocation.npz") as wanted,
  ):
    assert (
      sorted(found) == sorted(wanted) == ["count", "id", "solve_rate", "step"]
    )
    for name in wanted:
      np.testing.assert_array_equal(found[name], wanted[name])


def contents(workdir):
  files = [path for path in workdir.rglob("*") if path.is_file()]
  return {str(path.relative_to(workdir)): path.read_bytes() for path in files}


def damage(step_directory):
  """Turns some bits of the largest file."""
  files = [path for path in step_directory.rglob("*") if path.is_file()]
  largest = max(files, key=lambda path: path.stat().st_size)
  content = bytearray(largest.read_bytes())
  middle = len(content) // 2
  content[middle : middle + 64] = bytes(b ^ 0xFF for b in content[middle:][:64])
  largest.write_bytes(content)


def test_the_run_has_what_a_resume_could_lose(whole):
  state, _ = state_of(whole)
  waiting = np.asarray(state.methods["replay"].ids)
  assert (waiting >= 0).any()
  assert np.asarray(state.stats.weight).any()
  records = metrics.read_metrics(whole)[1:]
  assert sum(r["trained_rollouts"] for r in records) > 0
  assert len({r["rollouts"] for r in records}) > 1  # counts change


def test_each_kill_came_at_its_moment(killed):
  _, seen = killed
  assert seen["warm_start"] == (set(), [])
  assert seen["between"] == ({"0", "2"}, [0, 1, 2, 3])
  names, steps = seen["saving"]
  assert any(name.startswith("4.orbax-checkpoint-tmp") for name in names)
  assert "3" in names and "4" not in names
  assert steps in ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5])  # it goes on meanwhile
  names, steps = seen["saved"]
  assert "6" in names and steps == [0, 1, 2, 3, 4, 5, 6]


def test_a_killed_run_goes_on_bitwise(killed, whole):
  workdir, _ = killed
  assert_same_run(workdir, whole)


def test_a_killed_run_has_the_summary_of_one_that_was_not(killed, whole):
  workdir, _ = killed
  found, wanted = (
    json.loads((path / "summary.json").read_text()) for path in (workdir, whole)
  )
  assert found.pop("resumed_after") == [2, 3, 6, 8]
  assert wanted.pop("resumed_after") == []
  assert found.pop("wall_seconds") > 0 and wanted.pop("wall_seconds") > 0
  assert found == wanted
  assert found["compiles_after_first_step"] == 0


def test_a_damaged_checkpoint_falls_back_to_the_one_before(copy, whole):
  damage(copy / "checkpoints" / str(STEPS))
  process = tiny.finished(copy, "--resume")
  assert f"CHECKPOINT OF STEP {STEPS} IS DAMAGED" in process.stderr
  assert_same_run(copy, whole)
  assert (copy / "checkpoints" / f"{STEPS}.damaged").is_dir()
  summary = json.loads((copy / "summary.json").read_text())
  assert summary["resumed_after"] == [STEPS - 2]


def test_resuming_a_finished_run_changes_nothing(copy, monkeypatch):
  before = contents(copy)
  (copy / "summary.json").unlink()  # killed just before it was written

  def never(*_):
    raise AssertionError("a finished run was evaluated anew")

  monkeypatch.setattr(build, "evaluation", lambda *_: never)
  train.run(tiny.get_config(), str(copy), resume=True)
  after = contents(copy)
  assert after.keys() == before.keys()
  assert [name for name in before if before[name] != after[name]] == []


@pytest.mark.parametrize(
  "changes, messages",
  [
    (
      {"learning_rate": 2e-3, "task__per_grade": 16, "steps": 9},
      ["learning_rate: saved 0.001, now 0.002", "task.per_grade: saved 32"],
    ),
    # A state of other shapes is named by its field too, not by its leaves.
    ({"model__embed": 16}, ["model.embed: saved 32, now 16"]),
    ({"steps": 3}, [f"steps=3, but this run has done {STEPS}: raise steps"]),
  ],
)
def test_another_config_is_refused(copy, changes, messages):
  before = contents(copy)
  with pytest.raises(cli.Refused) as error:
    train.run(tiny.get_config(**changes), str(copy), resume=True)
  assert all(message in str(error.value) for message in messages)
  assert "steps:" not in str(error.value)  # free to change
  assert contents(copy) == before


def test_a_workdir_in_use_is_refused_without_resume(copy):
  before = contents(copy)
  with pytest.raises(cli.Refused, match="not empty: pass --resume"):
    train.run(tiny.get_config(), str(copy))
  assert contents(copy) == before
