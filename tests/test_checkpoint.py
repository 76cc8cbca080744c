"""A resumed run is the same run, whatever happened to its files."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import random
from jax.sharding import NamedSharding, PartitionSpec

from jaxroll import checkpoint, metrics, types
from tests import checkpoint_worker

MESH = jax.make_mesh((8,), ("data",))
OPTIMISER = optax.chain(
  optax.clip(1.0),
  optax.masked(optax.adam(1e-2), {"w": True, "b": False}),
)


def make_state(seed=0) -> types.TrainState:
  """One leaf sharded over the mesh, the others on no device in particular."""
  key = random.key(seed)
  params = {
    "w": jax.device_put(
      random.normal(key, (8, 4)), NamedSharding(MESH, PartitionSpec("data"))
    ),
    "b": random.normal(key, (4,)).astype(jnp.bfloat16),
  }
  zeros = jnp.zeros(5, jnp.float32)
  return types.TrainState(
    learners={"policy": types.Learner(params, OPTIMISER.init(params))},
    frozen={},
    stats=types.PromptStats(*[zeros] * 6, jnp.full(5, -1, jnp.int32)),
    methods={
      "keys": random.split(key, 3),
      "on": jnp.array([True, False]),
      "noise": random.bits(key, (64, 64)),  # most of the bytes on disk
    },
    step=jnp.zeros((), jnp.int32),
    key=key,
  )


@jax.jit
def train_step(state: types.TrainState) -> types.TrainState:
  """Some arithmetic with noise on everything that a real step carries."""
  policy = state.learners["policy"]
  noise = random.normal(random.fold_in(state.key, state.step), (8, 4))
  grads = {"w": policy.params["w"] + noise, "b": policy.params["b"]}
  with jax.numpy_dtype_promotion("standard"):  # optax raises floats to ints
    updates, opt_state = OPTIMISER.update(grads, policy.opt_state)
  params = optax.apply_updates(policy.params, updates)
  return state.replace(
    learners={"policy": types.Learner(params, opt_state)},
    step=state.step + 1,
  )


def raw_bytes(leaf) -> bytes:
  if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
    leaf = random.key_data(leaf)
  return np.asarray(leaf).tobytes()


def assert_same(state, expected):
  assert jax.tree.structure(state) == jax.tree.structure(expected)
  for leaf, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(expected)):
    assert (leaf.dtype, leaf.shape) == (wanted.dtype, wanted.shape)
    assert leaf.sharding == wanted.sharding
    assert leaf.committed == wanted.committed
    assert not getattr(leaf, "weak_type", False)
    assert raw_bytes(leaf) == raw_bytes(wanted)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  """Steps 1 and 2, with the states that were saved."""
  directory = tmp_path_factory.mktemp("saved")
  states = {step: make_state(step) for step in (1, 2)}
  with checkpoint.Checkpoints(directory) as checkpoints:
    for step, state in states.items():
      assert checkpoints.save(step, state, {"step": step, "note": [1.5, None]})
  return directory, states


@pytest.fixture
def copy(saved, tmp_path):
  """A directory of its own with the same two steps, to be damaged."""
  directory = tmp_path / "checkpoints"
  shutil.copytree(saved[0], directory)
  return directory


def test_restores_the_newest_bitwise(saved):
  directory, states = saved
  with checkpoint.Checkpoints(directory) as checkpoints:
    restored = checkpoints.restore(make_state())
  assert restored.step == 2
  assert restored.metadata == {"step": 2, "note": [1.5, None]}
  assert_same(restored.state, states[2])
  # The keys are typed keys and draw what they drew.
  drawn = random.uniform(restored.state.methods["keys"][1])
  assert drawn == random.uniform(states[2].methods["keys"][1])


def test_a_template_needs_no_arrays(saved):
  directory, states = saved
  abstract = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(
      x.shape, x.dtype, sharding=x.sharding if x.committed else None
    ),
    make_state(),
  )
  with checkpoint.Checkpoints(directory) as checkpoints:
    assert_same(checkpoints.restore(abstract).state, states[2])


def test_a_step_lies_on_any_mesh_bitwise(tmp_path):
  """1 device -> 2 x 2 x 2 -> 8 -> 1, each saved by the one before."""
  first = state = make_state(1)
  cube = jax.make_mesh((2, 2, 2), ("data", "fsdp", "tensor"))
  places = [
    NamedSharding(cube, PartitionSpec("fsdp", "tensor")),
    NamedSharding(cube, PartitionSpec(("data", "tensor"))),
    NamedSharding(MESH, PartitionSpec("data")),
    jax.sharding.SingleDeviceSharding(jax.devices()[3]),
  ]
  with checkpoint.Checkpoints(tmp_path) as checkpoints:
    for step, place in enumerate(places):
      checkpoints.save(step, state, {})
      checkpoints.wait()
      params = state.learners["policy"].params
      w = jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=place)
      template = state.replace(
        learners={
          "policy": types.Learner(
            params | {"w": w}, state.learners["policy"].opt_state
          )
        }
      )
      state = checkpoints.restore(template).state
      assert state.learners["policy"].params["w"].sharding == place
      for leaf, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(first)):
        assert raw_bytes(leaf) == raw_bytes(wanted)


def test_unusual_bits_survive(tmp_path):
  words = [0x7FC00001, 0xFFC12345, 0x80000000, 0x00000001, 0x7F800000]
  bits = np.array(words, np.uint32)  # NaNs with payload, -0, denormal, inf
  state = {"x": jnp.asarray(bits.view(np.float32))}
  with checkpoint.Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(0, state, {})
    checkpoints.wait()
    restored = checkpoints.restore(state)
  np.testing.assert_array_equal(
    np.asarray(restored.state["x"]).view(np.uint32), bits
  )


def test_two_halves_equal_the_whole_and_compile_once(tmp_path):
  state = whole = make_state()
  for _ in range(4):
    whole = train_step(whole)
  for _ in range(2):
    state = train_step(state)
  counter = metrics.CompileCounter()
  with checkpoint.Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(2, state, {})
  with checkpoint.Checkpoints(tmp_path) as checkpoints:
    state = checkpoints.restore(state).state
  mark = counter.count
  for _ in range(2):
    state = train_step(state)
  assert counter.since(mark) == 0, counter.names[mark:]
  counter.close()
  assert_same(state, whole)


def test_state_may_be_donated_once_save_has_returned(tmp_path):
  state = {"x": jnp.arange(2**20, dtype=jnp.float32)}
  overwrite = jax.jit(
    lambda s: jax.tree.map(lambda x: x * 0.0 - 1.0, s), donate_argnums=0
  )
  with checkpoint.Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(0, state, {})
    state = overwrite(state)
    checkpoints.wait()
    restored = checkpoints.restore(state).state
  np.testing.assert_array_equal(restored["x"], np.arange(2**20))


def largest_file(step: pathlib.Path) -> pathlib.Path:
  """The file that holds the arrays."""
  files = [path for path in step.rglob("*") if path.is_file()]
  return max(files, key=lambda path: path.stat().st_size)


def flip_one_bit(path: pathlib.Path):
  content = bytearray(path.read_bytes())
  content[len(content) // 2] ^= 1
  path.write_bytes(bytes(content))


def garble(path: pathlib.Path):
  path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size))


def truncate(path: pathlib.Path):
  os.truncate(path, path.stat().st_size // 2)


def clear(step: pathlib.Path):
  shutil.rmtree(step)
  step.mkdir()


def replace_by_file(step: pathlib.Path):
  shutil.rmtree(step)
  step.write_bytes(b"garbage")


DAMAGES = {
  "array file deleted": lambda step: largest_file(step).unlink(),
  "array file truncated": lambda step: truncate(largest_file(step)),
  "array file garbled": lambda step: garble(largest_file(step)),
  "one bit flipped": lambda step: flip_one_bit(largest_file(step)),
  "tree garbled": lambda step: garble(step / "state" / "_METADATA"),
  "record deleted": lambda step: (step / "record" / "metadata").unlink(),
  "record garbled": lambda step: garble(step / "record" / "metadata"),
  "a digit of the record": lambda step: change_digit(
    step / "record" / "metadata"
  ),
  "state folder deleted": lambda step: shutil.rmtree(step / "state"),
  "empty directory": clear,
  "a file in its place": replace_by_file,
}


def change_digit(path: pathlib.Path):
  text = path.read_text()
  assert '"float32[8, 4]"' in text
  path.write_text(text.replace("float32[8, 4]", "float32[8, 5]"))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_step_is_fallen_over(saved, copy, damage, caplog):
  _, states = saved
  DAMAGES[damage](copy / "2")
  with checkpoint.Checkpoints(copy) as checkpoints:
    restored = checkpoints.restore(make_state())
    assert restored.step == 1 and restored.metadata["step"] == 1
    assert_same(restored.state, states[1])
    assert "STEP 2 IS DAMAGED" in caplog.text
    # What was there is kept, and step 2 can be saved when it is reached.
    assert (copy / "2.damaged").exists()
    assert checkpoints.steps() == [1]
    assert checkpoints.save(2, states[2], {"step": 2})
    checkpoints.wait()
    assert_same(checkpoints.restore(make_state()).state, states[2])


def test_never_starts_over_silently(copy):
  for step in ("1", "2"):
    largest_file(copy / step).unlink()
  with checkpoint.Checkpoints(copy) as checkpoints:
    with pytest.raises(RuntimeError, match="none of .* restores") as error:
      checkpoints.restore(make_state())
    assert "step 1: " in str(error.value) and "step 2: " in str(error.value)
    assert checkpoints.steps() == [1, 2]  # nothing was moved


@pytest.mark.parametrize(
  "change, message",
  [
    (
      lambda s: s.replace(step=jnp.zeros(2, jnp.int32)),
      r"\.step: saved int32\[\], now int32\[2\]",
    ),
    (
      lambda s: s.replace(step=jnp.zeros((), jnp.float32)),
      r"\.step: saved int32\[\], now float32\[\]",
    ),
    (
      lambda s: s.replace(methods={}),
      r"\.methods\['on'\]: saved bool\[2\], now <absent>",
    ),
    (
      lambda s: s.replace(frozen={"reference": jnp.zeros(1, jnp.float32)}),
      r"\.frozen\['reference'\]: saved <absent>, now float32\[1\]",
    ),
  ],
)
def test_another_state_is_no_damage(saved, change, message):
  with checkpoint.Checkpoints(saved[0]) as checkpoints:
    with pytest.raises(ValueError, match=message):
      checkpoints.restore(change(make_state()))
    assert checkpoints.steps() == [1, 2]


def test_keeps_the_newest_and_saves_every_so_often(tmp_path):
  state = {"x": jnp.zeros(2, jnp.float32)}
  with checkpoint.Checkpoints(tmp_path, keep=2, every=5) as checkpoints:
    assert checkpoints.restore(state) is None
    written = [s for s in range(18) if checkpoints.save(s, state, {})]
    assert written == [0, 5, 10, 15]
    assert checkpoints.save(17, state, {}, force=True)
    assert not checkpoints.save(17, state, {}, force=True)
    checkpoints.wait()
    assert checkpoints.steps() == [15, 17]


@pytest.mark.parametrize("name", ["keep", "every"])
def test_bad_settings(tmp_path, name):
  with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
    checkpoint.Checkpoints(tmp_path, **{name: 0})


@pytest.mark.parametrize(
  "leaf, message",
  [
    (3.0, r"state\['x'\] is a float: make it a jax.Array"),
    (np.zeros(2), r"state\['x'\] is a ndarray: make it a jax.Array"),
    (jnp.asarray(3.0), r"state\['x'\] is weakly typed"),
  ],
)
def test_leaves_that_would_change_are_refused(tmp_path, leaf, message):
  with checkpoint.Checkpoints(tmp_path) as checkpoints:
    with pytest.raises(ValueError, match=message):
      checkpoints.save(0, {"x": leaf}, {})
    with pytest.raises(TypeError, match="not JSON serializable"):
      checkpoints.save(0, {"x": jnp.zeros(2, jnp.float32)}, {"f": print})


def test_killed_while_a_save_is_being_written(tmp_path):
  environ = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
  worker = subprocess.Popen(
    [sys.executable, "-m", checkpoint_worker.__name__, str(tmp_path)],
    cwd=pathlib.Path(__file__).parent.parent,
    env=environ,
    stdout=subprocess.PIPE,
    text=True,
  )
  try:
    assert worker.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 120
    # The kill comes as soon as a byte of an array has been written.
    while not any(
      path.is_file() and path.stat().st_size > 0
      for path in tmp_path.glob("2.*tmp*/**/d/*")
    ):
      assert worker.poll() is None and time.monotonic() < deadline
  finally:
    worker.send_signal(signal.SIGKILL)
    rest, _ = worker.communicate()
  assert "saved" not in rest
  assert list(tmp_path.glob("2.*tmp*")) and not (tmp_path / "2").exists()
  with checkpoint.Checkpoints(tmp_path) as checkpoints:
    template = jax.eval_shape(lambda: checkpoint_worker.state_of(1))
    restored = checkpoints.restore(template)
    assert restored.step == 1 and restored.metadata == {"step": 1}
    np.testing.assert_array_equal(
      restored.state["words"], checkpoint_worker.state_of(1)["words"]
    )
    assert checkpoints.save(2, restored.state, {})
    checkpoints.wait()
    assert checkpoints.steps() == [1, 2]
    assert not list(tmp_path.glob("2.*tmp*"))  # cleared away


CONFIG = {"steps": 10, "optimiser": {"lr": 0.1, "betas": (0.9, 0.99)}}


def test_same_config_or_a_free_change_passes():
  restored = {"steps": 10, "optimiser": {"lr": 0.1, "betas": [0.9, 0.99]}}
  checkpoint.check_config(restored, CONFIG)
  checkpoint.check_config(restored, {**CONFIG, "steps": 20}, free=("steps",))
  checkpoint.check_config(restored, {"steps": 10}, free=("optimiser",))


def test_every_changed_field_is_named():
  current = {"step": 1, "steps": 20, "optimiser": {"lr": 0.2, "betas": (0, 1)}}
  with pytest.raises(ValueError) as error:
    checkpoint.check_config(CONFIG, current, free=("steps", "log_every"))
  assert str(error.value).split("\n") == [
    "the config differs from the one this run was started with:",
    "  optimiser.betas: saved [0.9, 0.99], now [0, 1]",
    "  optimiser.lr: saved 0.1, now 0.2",
    "  step: saved <absent>, now 1",
    "set these fields back, or start in a new --workdir; free to change: "
    "steps, log_every",
  ]


def test_another_environment_is_warned_about(caplog):
  here = checkpoint.environment()
  assert here["jax"] == jax.__version__ and here["device_count"] == 8
  assert checkpoint.warn_environment(here) == []
  assert caplog.text == ""
  lines = checkpoint.warn_environment({**here, "jaxlib": "0.0.1"})
  assert lines == [f"  jaxlib: saved 0.0.1, now {here['jaxlib']}"]
  assert "no longer bitwise" in caplog.text and lines[0] in caplog.text
  on_mesh = checkpoint.environment(MESH)
  assert checkpoint.warn_environment(on_mesh, MESH) == []
  other = jax.make_mesh((4, 2), ("data", "fsdp"))
  assert checkpoint.warn_environment(on_mesh, other) == [
    "  mesh: saved {'data': 8}, now {'data': 4, 'fsdp': 2}"
  ]


def test_workdir(tmp_path):
  workdir = checkpoint.prepare_workdir(tmp_path / "a" / "b", resume=False)
  assert workdir.is_dir() and list(workdir.iterdir()) == []
  checkpoint.prepare_workdir(tmp_path / "c", resume=True)  # a job's first start
  (tmp_path / "file").touch()
  with pytest.raises(ValueError, match="file cannot be made"):
    checkpoint.prepare_workdir(tmp_path / "file", resume=True)
  # Killed before its first checkpoint: there are files, and nothing to restore.
  (workdir / "config.json").write_text("{}")
  with checkpoint.Checkpoints(workdir / "checkpoints"):
    pass
  with pytest.raises(ValueError, match="is not empty: pass --resume"):
    checkpoint.prepare_workdir(workdir, resume=False)
  checkpoint.prepare_workdir(workdir, resume=True)
  with checkpoint.Checkpoints(workdir / "checkpoints") as checkpoints:
    assert checkpoints.restore(make_state()) is None
