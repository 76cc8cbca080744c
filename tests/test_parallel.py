"""One step on eight devices, however they are arranged, is the step on one."""

import functools
import os
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as Spec

from jaxroll import parallel
from tests.train import tiny

MESHES = {
  "data=8": dict(data=8),
  "data=2,fsdp=2,tensor=2": dict(data=2, fsdp=2, tensor=2),
  "fsdp=8": dict(data=1, fsdp=8),
  "tensor=8": dict(data=1, tensor=8),  # the 2 kv heads are split within
}
# Adam as it is turns the rounding of a tiny gradient into a whole step.
OPTIMISER = optax.apply_if_finite(optax.adamw(0.1, eps=1.0), 9)
# Uneven groups, and rounds that depend on each other.
RULES = tiny.RECIPES["vigor"](tiny.SIZES)


def mesh_of(name):
  return None if name == "one device" else parallel.make_mesh(**MESHES[name])


def placed(state, mesh):
  if mesh is None:
    return state
  return jax.device_put(state, parallel.shardings(state, mesh))


@functools.cache
def rolled(name):
  """The draft of a step with all its rows, on a mesh."""
  mesh = mesh_of(name)
  step = tiny.make(RULES, optimiser=OPTIMISER, mesh=mesh)

  def roll(state):
    draft = step.begin(state, tiny.TASK.data)
    for number in range(len(step.rounds)):
      request, rows, draft = step.generate(
        state, tiny.SETTINGS, draft, jnp.int32(number)
      )
      outcome = tiny.TASK.verify(draft.prompts, rows)
      draft = step.absorb(draft, request, rows, outcome)
    return draft

  return jax.device_get(
    jax.jit(roll)(placed(tiny.state(RULES, OPTIMISER), mesh))
  )


@functools.cache
def learned(name):
  """What a mesh learns of ONE device's rows: jitted learn, states, metrics."""
  mesh = mesh_of(name)
  learn = jax.jit(tiny.make(RULES, optimiser=OPTIMISER, mesh=mesh).learn)
  draft = rolled("one device")
  states = [placed(tiny.state(RULES, OPTIMISER), mesh)]
  for _ in range(2):
    state, output = learn(states[-1], tiny.SETTINGS, draft)
    states.append(state)
  return learn, states, output.metrics


@pytest.mark.parametrize("name", MESHES)
def test_rows_are_those_of_one_device(name):
  one, many = rolled("one device"), rolled(name)
  assert len(set(one.counts.tolist())) > 1
  np.testing.assert_array_equal(one.prompts.id, many.prompts.id)
  # A draw within rounding of a boundary may fall on its other side, which
  # `tests/rollout` demands of every row that differs; here few may.
  same = (one.rollouts.tokens == many.rollouts.tokens).all(axis=1)
  assert (~same).sum() <= 1
  np.testing.assert_allclose(
    one.rollouts.behaviour_logp[same],
    many.rollouts.behaviour_logp[same],
    atol=1e-4,
  )
  if same.all():
    np.testing.assert_array_equal(one.counts, many.counts)
    np.testing.assert_array_equal(one.outcome.reward, many.outcome.reward)


@pytest.mark.parametrize("name", MESHES)
def test_the_update_is_that_of_one_device(name):
  _, (_, *one), one_metrics = learned("one device")
  _, (_, *many), many_metrics = learned(name)
  for a, b in zip(one, many):
    tiny.close(a.learners["policy"].params, b.learners["policy"].params, 1e-5)
    tiny.close(a.stats, b.stats)
  for metric, value in one_metrics.items():
    np.testing.assert_allclose(
      value, many_metrics[metric], rtol=1e-3, atol=1e-4, err_msg=metric
    )


@pytest.mark.parametrize("name", MESHES)
def test_the_state_stays_where_it_was_put(name):
  learn, states, _ = learned(name)
  expected = parallel.shardings(states[0], mesh_of(name))
  for state in states:
    for leaf, where in zip(*map(jax.tree.leaves, (state, expected))):
      assert leaf.sharding.is_equivalent_to(where, leaf.ndim), where
  assert learn._cache_size() == 1


# Paths of a state on data=2,fsdp=2,tensor=2, and what a device holds of them.
HELD = {
  "params/embed/embedding": ((24, 32), (12, 16)),
  "params/head/kernel": ((32, 24), (16, 12)),
  "params/layers/q/kernel": ((1, 32, 32), (1, 16, 16)),
  "params/layers/k/kernel": ((1, 32, 16), (1, 16, 8)),
  "params/layers/o/kernel": ((1, 32, 32), (1, 16, 16)),
  "params/layers/up/kernel": ((1, 32, 64), (1, 16, 32)),
  "params/layers/down/kernel": ((1, 64, 32), (1, 32, 16)),
  "params/final_norm/scale": ((32,), (32,)),
  "mu/layers/gate/kernel": ((1, 32, 64), (1, 16, 32)),
  "nu/embed/embedding": ((24, 32), (12, 16)),
  "stats/alpha": ((40,), (20,)),
  "stats/seen": ((40,), (20,)),
}


@pytest.mark.parametrize("path", HELD)
def test_what_a_device_holds(path):
  _, states, _ = learned("data=2,fsdp=2,tensor=2")
  found = [
    leaf
    for where, leaf in jax.tree_util.tree_leaves_with_path(states[-1])
    if jax.tree_util.keystr(where, simple=True, separator="/").endswith(path)
  ]
  shape, shard = HELD[path]
  assert len(found) == 1 and found[0].shape == shape
  assert found[0].addressable_shards[0].data.shape == shard
  assert len({s.device for s in found[0].addressable_shards}) == 8


# --- the table


@pytest.mark.parametrize(
  "path, shape, expected",
  [
    ("params/layers/q/kernel", (2, 32, 32), Spec(None, "fsdp", "tensor")),
    ("params/layers/q/kernel", (2, 32, 31), Spec(None, "fsdp")),
    ("params/layers/q/kernel", (2, 31, 32), Spec(None, None, "tensor")),
    ("params/layers/q/bias", (2, 32), Spec(None, "tensor")),
    ("params/layers/q_norm/scale", (2, 8), Spec()),
    ("params/embed/embedding", (25, 32), Spec(None, "fsdp")),
    ("stats/alpha", (40,), Spec("data")),
    ("stats/alpha", (41,), Spec()),
    ("params/head/kernel", (6, 3), Spec("fsdp")),
    ("methods/replay/born", (40,), Spec()),
    ("head/kernel", (32,), Spec()),
    ("step", (), Spec()),
  ],
)
def test_spec_for(path, shape, expected):
  mesh = parallel.make_mesh(data=2, fsdp=2, tensor=2)
  assert parallel.spec_for(path, shape, mesh) == expected


def test_axes_that_split_nothing_are_not_named():
  mesh = parallel.make_mesh(data=8)
  for path in ("params/layers/q/kernel", "params/embed/embedding"):
    assert parallel.spec_for(path, (8, 8, 8), mesh) == Spec()
  assert parallel.spec_for("stats/alpha", (8,), mesh) == Spec("data")


def test_a_dimension_over_two_axes():
  mesh = parallel.make_mesh(data=4, fsdp=2)
  rules = ((r"", Spec(("data", "fsdp"))),)
  assert parallel.spec_for("x", (16,), mesh, rules) == Spec(("data", "fsdp"))
  assert parallel.spec_for("x", (12,), mesh, rules) == Spec()


def test_the_first_rule_decides_and_none_means_whole():
  mesh = parallel.make_mesh(data=8)
  rules = ((r"mine$", Spec("data")), (r"mi", Spec(None, "data")))
  assert parallel.spec_for("a/mine", (8, 8), mesh, rules) == Spec("data")
  assert parallel.spec_for("a/mint", (8, 8), mesh, rules) == Spec(None, "data")
  assert parallel.spec_for("a/other", (8, 8), mesh, rules) == Spec()


def test_rows_lie_over_data_and_fsdp():
  mesh = parallel.make_mesh(data=2, fsdp=2, tensor=2)
  batch = {"a": jnp.zeros((8, 3)), "b": jnp.zeros((8,), jnp.int32)}
  out = jax.jit(lambda x: parallel.rows(x, mesh))(batch)
  for x in out.values():
    where = NamedSharding(mesh, Spec(("data", "fsdp")))
    assert x.sharding.is_equivalent_to(where, x.ndim)
  odd = {"a": jnp.zeros((7, 3))}
  assert jax.jit(lambda x: parallel.rows(x, mesh))(odd)["a"].shape == (7, 3)
  assert parallel.rows(batch, None) is batch


# --- meshes


def test_one_size_takes_what_is_left():
  assert dict(parallel.make_mesh().shape) == dict(data=8, fsdp=1, tensor=1)
  mesh = parallel.make_mesh(data=2, fsdp=-1, tensor=2)
  assert mesh.axis_names == parallel.AXES == ("data", "fsdp", "tensor")
  assert mesh.devices.shape == (2, 2, 2)
  some = parallel.make_mesh(fsdp=2, devices=jax.devices()[:4])
  assert some.devices.shape == (2, 2, 1)


@pytest.mark.parametrize(
  "sizes, words",
  [
    (dict(data=3), "'data': 3.*8 devices.*multiply to 8.*[1, 2, 4, 8]"),
    (dict(data=2, fsdp=2), "'fsdp': 2.*multiply to 8.*[1, 2, 4, 8]"),
    (dict(data=-1, tensor=3), "'tensor': 3.*each one of [1, 2, 4, 8]"),
    (dict(data=-1, tensor=16), "'tensor': 16.*each one of [1, 2, 4, 8]"),
    (dict(data=-1, fsdp=-1), "'fsdp': -1.*at most one is -1"),
    (dict(data=0), "'data': 0.*sizes are >= 1"),
    (dict(data=8, tensor=-2), "'tensor': -2.*sizes are >= 1"),
  ],
)
def test_sizes_that_do_not_fit(sizes, words):
  pattern = words.replace("[", r"\[").replace("]", r"\]")
  with pytest.raises(ValueError, match=pattern) as error:
    parallel.make_mesh(**sizes)
  assert re.search(r"mesh \{'data'", str(error.value))


def test_virtual_devices():
  program = """
import os, jax
from jaxroll import parallel
parallel.virtual_devices()
assert "NPROC" not in os.environ
for wrong in (0, -1):
  try:
    parallel.virtual_devices(wrong)
  except ValueError as error:
    assert f"num={wrong}" in str(error)
  else:
    raise SystemExit("not refused")
parallel.virtual_devices(3)
parallel.virtual_devices(3)
try:
  parallel.virtual_devices(4)
except ValueError as error:
  assert "count=3" in str(error)
else:
  raise SystemExit("not refused")
assert jax.device_count() == 3
assert int(os.environ["NPROC"]) == 24
assert not jax.config.values["jax_cpu_enable_async_dispatch"]
"""
  environment = {"JAX_PLATFORMS": "cpu", "PATH": os.environ["PATH"]}
  process = subprocess.run(
    [sys.executable, "-c", program],
    env=environment,
    cwd=pathlib.Path(__file__).parent.parent,
    capture_output=True,
    text=True,
  )
  assert process.returncode == 0, process.stderr
