"""Two processes do what one does, and end together where one dies."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from experiments import build, train
from jaxroll import checkpoint, metrics, parallel
from jaxroll import train as train_lib
from tests import process_worker
from tests.experiments import tiny

STEPS = 4
HEARTBEAT = 10
FLAGS = (
  f"--config={tiny.__file__}",
  "--config.recipe=uniform",
  "--config.select=",
  f"--config.steps={STEPS}",
  f"--config.eval_every={STEPS}",
  "--config.mesh.data=4",
  "--config.mesh.fsdp=2",
)
# Compilation is most of what these tests cost.
QUICK = "--xla_backend_optimization_level=0"
LIMIT = 400  # seconds: a hang fails, also on a machine with much else to do


def free_port():
  with socket.socket() as it:
    it.bind(("127.0.0.1", 0))
    return it.getsockname()[1]


def together(folder, *commands, devices=4, variables=({}, {})):
  """Runs commands side by side, each with some devices.

  Returns their exit codes, what they wrote on standard error, and the seconds
  from the first end to the last.
  """
  environment = os.environ | {
    "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} {QUICK}",
    "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir,
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.5",
  }
  environment.pop("NPROC", None)
  running, ends = [], {}
  try:
    for number, (command, own) in enumerate(zip(commands, variables)):
      running.append(
        subprocess.Popen(
          [sys.executable, "-m", *command],
          cwd=tiny.ROOT,
          env=environment | own,
          stdout=subprocess.DEVNULL,
          stderr=(folder / f"stderr{number}").open("w"),
        )
      )
    deadline = time.monotonic() + LIMIT
    while len(ends) < len(running) and time.monotonic() < deadline:
      time.sleep(0.05)
      for number, process in enumerate(running):
        if number not in ends and process.poll() is not None:
          ends[number] = time.monotonic()
  finally:
    for process in running:
      process.kill()
      process.wait()
  errors = [(folder / f"stderr{n}").read_text() for n in range(len(running))]
  assert len(ends) == len(running), f"no end in {LIMIT} s: {errors}"
  codes = [process.returncode for process in running]
  return codes, errors, max(ends.values()) - min(ends.values())


def as_two(workdir, *flags, modules=("experiments.train",) * 2, last=((), ())):
  """Runs the binary as two processes that are told about each other."""
  port = free_port()
  commands = [
    (module, f"--workdir={workdir}", *FLAGS, *flags)
    + (f"--coordinator=127.0.0.1:{port}", "--num_processes=2")
    + (f"--process_id={this}", f"--heartbeat_timeout={HEARTBEAT}", *more)
    for this, (module, more) in enumerate(zip(modules, last))
  ]
  return together(workdir.parent, *commands)


def as_one(workdir, *flags):
  command = ("experiments.train", f"--workdir={workdir}", *FLAGS, *flags)
  codes, errors, _ = together(workdir.parent, command, devices=8)
  assert codes == [0], errors[0]
  return errors[0]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
  """The run as one process with 8 devices."""
  workdir = tmp_path_factory.mktemp("one") / "run"
  as_one(workdir)
  return workdir


@pytest.fixture(scope="module")
def two(tmp_path_factory):
  """The run as two processes with 4 each, found by the variables of Slurm."""
  workdir = tmp_path_factory.mktemp("two") / "run"
  command = ("experiments.train", f"--workdir={workdir}", *FLAGS)
  slurm = {
    "JAX_COORDINATOR_PORT": str(free_port()),
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_NTASKS": "2",
    "SLURM_LOCALID": "0",
  }
  variables = [slurm | {"SLURM_PROCID": str(this)} for this in range(2)]
  codes, errors, _ = together(
    workdir.parent,
    *[(*command, "--distributed=auto")] * 2,
    variables=variables,
  )
  assert codes == [0, 0], errors
  return workdir, errors


def restored(workdir, mesh=None):
  """The newest state on a mesh of this process, and its step."""
  config = tiny.get_config(recipe="uniform", select="")
  task = build.task(config.task)
  sizes = build.sizes(config, task)
  lm = build.policy(config.model, task.vocab_size)
  template = jax.eval_shape(
    lambda: train_lib.init_state(
      build.rules(config, sizes),
      lm,
      build.optimiser(config),
      sizes,
      jax.random.key(0),
    )
  )
  if mesh is not None:
    template = jax.tree.map(
      lambda x, to: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=to),
      template,
      parallel.shardings(template, mesh),
    )
  with checkpoint.Checkpoints(workdir / "checkpoints") as checkpoints:
    found = checkpoints.restore(template)
  return found.state, found.step


def leaves(state):
  """name -> numpy array of each leaf."""

  def raw(x):
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
      x = jax.random.key_data(x)
    return np.asarray(x)

  found = jax.tree_util.tree_leaves_with_path(state)
  return {jax.tree_util.keystr(path): raw(leaf) for path, leaf in found}


def assert_same_within_rounding(workdir, wanted):
  """Rule 4: updates within 1e-5; here no token is a near-tie."""
  (state, step), (expected, _) = restored(workdir), restored(wanted)
  assert step == STEPS
  found, expected = leaves(state), leaves(expected)
  assert found.keys() == expected.keys()
  for name, x in expected.items():
    np.testing.assert_allclose(found[name], x, rtol=0, atol=1e-5, err_msg=name)
  records = tiny.untimed(workdir)
  assert [r["step"] for r in records] == list(range(STEPS + 1))
  for record, other in zip(records, tiny.untimed(wanted), strict=True):
    assert record == pytest.approx(other, rel=1e-4, abs=1e-5)
  texts = [
    [json.loads(x)["completion"] for x in (w / "transcripts.jsonl").open()]
    for w in (workdir, wanted)
  ]
  assert texts[0] == texts[1]
  with (
    np.load(workdir / "allocation.npz") as found,
    np.load(wanted / "allocation.npz") as expected,
  ):
    for name in ("step", "id", "count"):
      np.testing.assert_array_equal(found[name], expected[name])


def test_two_processes_are_the_run_of_one(one, two):
  assert_same_within_rounding(two[0], one)
  moved = metrics.read_metrics(one)
  assert sum(record.get("trained_rollouts", 0) for record in moved) > 0


def test_everything_is_written_once(one, two):
  workdir, (first, second) = two

  def files(of):
    paths = {str(p.relative_to(of)) for p in of.rglob("*") if p.is_file()}
    return {p for p in paths if not p.startswith("checkpoints/")}

  assert files(workdir) == files(one)
  assert f"step {STEPS}/{STEPS}" in first and "report: " in first
  assert "step" not in second and "recipe" not in second
  with (workdir / "transcripts.jsonl").open() as file:
    shown = [tuple(json.loads(line).values())[:2] for line in file]
  assert len(set(shown)) == len(shown)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
  """A run whose process 1 is killed in step 3, with what was seen of it."""
  workdir = tmp_path_factory.mktemp("killed") / "run"
  return workdir, as_two(
    workdir,
    modules=("experiments.train", "tests.experiments.killed"),
    last=((), ("--moment=between",)),
  )


def test_where_one_dies_all_end_and_say_so(killed):
  workdir, (codes, (first, second), seconds) = killed
  assert codes[1] == -signal.SIGKILL
  assert codes[0] not in (0, -signal.SIGKILL)
  # Twice: a process whose connection broke waits at its end for the others.
  assert seconds < 2 * HEARTBEAT + 10
  assert "tasks are unhealthy (stopped sending heartbeats):\n1\n" in first
  said = "process {} of 2 has ended before its run did."
  assert said.format(0) in first and said.format(1) in second
  assert "start all 2 again with --resume" in first
  steps = {p.name for p in (workdir / "checkpoints").iterdir()}
  assert "2" in steps and "4" not in steps
  assert not (workdir / "summary.json").exists()


def test_a_restart_goes_on_bitwise(killed, two, tmp_path):
  workdir = shutil.copytree(killed[0], tmp_path / "run")
  codes, errors, _ = as_two(workdir, "--resume")
  assert codes == [0, 0], errors
  (state, step), (expected, _) = restored(workdir), restored(two[0])
  found, expected = leaves(state), leaves(expected)
  assert step == STEPS
  for name, x in expected.items():
    np.testing.assert_array_equal(found[name], x, err_msg=name)
  assert tiny.untimed(workdir) == tiny.untimed(two[0])
  summary = json.loads((workdir / "summary.json").read_text())
  assert summary["resumed_after"] == [2]


def test_one_process_goes_on_for_two(killed, one, tmp_path):
  workdir = shutil.copytree(killed[0], tmp_path / "run")
  said = as_one(workdir, "--resume")
  assert "no longer bitwise" in said
  assert "process_count: saved 2, now 1" in said
  assert_same_within_rounding(workdir, one)


@pytest.mark.parametrize("shape", [(2, 2, 2), (8, 1, 1), (1, 1, 8)])
def test_a_state_of_two_processes_lies_on_any_mesh(two, shape):
  expected, _ = restored(two[0])
  mesh = parallel.make_mesh(*shape)
  state, step = restored(two[0], mesh)
  assert step == STEPS
  for leaf, where in zip(
    jax.tree.leaves(state), jax.tree.leaves(parallel.shardings(state, mesh))
  ):
    assert leaf.sharding == where
  for name, x in leaves(expected).items():
    np.testing.assert_array_equal(leaves(state)[name], x, err_msg=name)


def test_the_mesh_is_free_to_change(one, tmp_path, caplog):
  """Of a finished run, so that nothing is left to do."""
  workdir = shutil.copytree(one, tmp_path / "run")
  config = tiny.get_config(
    recipe="uniform",
    select="",
    steps=STEPS,
    eval_every=STEPS,
    mesh__data=8,
  )
  train.run(config, str(workdir), resume=True)
  assert "equal within rounding" in caplog.text
  assert "'data': 4, 'fsdp': 2" in caplog.text
  assert tiny.untimed(workdir) == tiny.untimed(one)


def test_host_verifiers_and_a_restore_by_two(tmp_path):
  """Each process verifies its rows; what one cannot read, none takes."""
  states = {n: process_worker.state_of(n, None) for n in (1, 2)}
  with checkpoint.Checkpoints(tmp_path / "checkpoints") as checkpoints:
    for step, state in states.items():
      checkpoints.save(step, state, {"of": step})
  port = str(free_port())
  codes, errors, _ = together(
    tmp_path,
    *[
      ("tests.process_worker", str(tmp_path), port, str(this))
      for this in range(2)
    ],
  )
  assert codes == [0, 0], errors
  found = [json.loads((tmp_path / f"{n}.json").read_text()) for n in (0, 1)]

  for this in found:
    restored = this.pop("restored")
    assert restored["step"] == 1 and restored["metadata"] == {"of": 1}
    assert "data" in restored["sharded"]
  assert "processes [1] could not read it" in errors[0]
  assert "this disk is broken" in errors[1]
  assert (tmp_path / "checkpoints" / "2.damaged").is_dir()
  with checkpoint.Checkpoints(tmp_path / "checkpoints") as checkpoints:
    state, _, step = checkpoints.restore(states[1])
  assert step == 3
  for name, x in leaves(states[1]).items():
    np.testing.assert_array_equal(leaves(state)[name], x)

  expected = process_worker.step_of_a_host_task()
  assert [this.pop("scored") for this in found] == [8, 7]
  assert expected.pop("scored") == 15
  assert [this.pop("scored_in_evaluation") for this in found] == [5, 4]
  assert expected.pop("scored_in_evaluation") == 9
  assert found[0] == found[1]
  for name, value in expected.items():
    np.testing.assert_allclose(found[0][name], value, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
  "arguments, message",
  [
    (("a:1",), "coordinator=a:1 without num_processes, process_id: give all"),
    ((None, 2, 0), "num_processes=2, process_id=0 without coordinator"),
    (("a", 2, 0), "coordinator='a': write host:port"),
    (("a:0", 2, 0), "coordinator='a:0': write host:port"),
    (("a:1", 0, 0), "num_processes=0: must be at least 1"),
    (("a:1", 2, 2), r"process_id=2: must be in \[0, 2\)"),
  ],
)
def test_refused_starts(arguments, message):
  with pytest.raises(ValueError, match=message):
    parallel.start_processes(*arguments)


def test_refused_timeouts():
  with pytest.raises(ValueError, match="heartbeat_timeout=0: must be at least"):
    parallel.start_processes(heartbeat_timeout=0)


def test_refused_flags(tmp_path):
  command = ("experiments.train", f"--workdir={tmp_path / 'run'}")
  codes, errors, _ = together(
    tmp_path,
    (*command, "--distributed=auto", "--process_id=1"),
    (*command, "--distributed=auto"),
  )
  assert codes == [2, 2], errors
  assert "--distributed=auto and --process_id: leave one" in errors[0]
  assert "no cluster was found" in errors[1]
  assert not (tmp_path / "run").exists()


def test_another_config_on_a_process_is_refused(tmp_path):
  seeds = (("--config.seed=0",), ("--config.seed=1",))
  codes, errors, _ = as_two(tmp_path / "run", last=seeds)
  assert codes == [2, 2], errors
  message = "the config of processes [1] is not that of process 0"
  assert all(message in error for error in errors)
  assert not (tmp_path / "run").exists()
