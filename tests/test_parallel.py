"""One step on eight devices, however they are arranged, is the step on one."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxroll import metrics, models, parallel, train
from tests.train import tiny

MESHES = {
  "data=8": dict(data=8),
  "data=2,fsdp=2,tensor=2": dict(data=2, fsdp=2, tensor=2),
  "fsdp=8": dict(data=1, fsdp=8),
  "tensor=8": dict(data=1, tensor=8),  # the 2 kv heads are split within
  "data=2,tensor=2,expert=2": dict(data=2, tensor=2, expert=2),
}
MOE = dataclasses.replace(tiny.CONFIG, ffn=16, experts=models.Experts(4, 2))
POLICIES = {"dense": tiny.POLICY, "moe": models.policy(MOE)}
PAIRS = [(model, name) for model in POLICIES for name in MESHES]
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


def state_of(model):
  policy, key = POLICIES[model], jax.random.key(0)
  params = jax.tree.map(
    lambda x: 8.0 * x if x.ndim > 1 else x, policy.init(key)
  )
  return train.init_state(
    RULES, policy, OPTIMISER, tiny.SIZES, key, params=params
  )


def make(model, mesh):
  return train.make_step(
    RULES,
    tiny.TASK,
    POLICIES[model],
    OPTIMISER,
    tiny.SIZES,
    slots=16,
    micro_rows=16,
    mesh=mesh,
  )


@functools.cache
def rolled(name, model="dense"):
  """The draft of a step with all its rows, on a mesh."""
  mesh = mesh_of(name)
  step = make(model, mesh)

  def roll(state):
    draft = step.begin(state, tiny.TASK.data)
    for number in range(len(step.rounds)):
      request, rows, draft = step.generate(
        state, tiny.SETTINGS, draft, jnp.int32(number)
      )
      outcome = tiny.TASK.verify(draft.prompts, rows)
      draft = step.absorb(draft, request, rows, outcome)
    return draft

  return jax.device_get(jax.jit(roll)(placed(state_of(model), mesh)))


@functools.cache
def learned(name, model="dense"):
  """What a mesh learns of ONE device's rows: jitted learn, states, metrics."""
  mesh = mesh_of(name)
  learn = jax.jit(make(model, mesh).learn)
  draft = rolled("one device", model)
  states = [placed(state_of(model), mesh)]
  for _ in range(2):
    state, output = learn(states[-1], tiny.SETTINGS, draft)
    states.append(state)
  return learn, states, output.metrics


def other_rows(draft):
  """The same step with other groups, lengths and order of rows."""
  order = np.random.default_rng(0).permutation(len(draft.rollouts.length))
  rows, outcome = jax.tree.map(
    lambda x: x[order], (draft.rollouts, draft.outcome)
  )
  at = np.arange(rows.tokens.shape[1])[None, :]
  length = np.maximum(rows.length - order % 3, 1)
  rows = rows.replace(
    group=np.minimum(rows.group, order % 8).astype(np.int32),
    length=length.astype(np.int32),
    mask=rows.mask & (at < length[:, None]),
  )
  return draft._replace(rollouts=rows, outcome=outcome)


@pytest.mark.parametrize("name", list(MESHES)[:-1])
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


@pytest.mark.parametrize("model, name", PAIRS)
def test_the_update_is_that_of_one_device(model, name):
  _, (_, *one), one_metrics = learned("one device", model)
  _, (_, *many), many_metrics = learned(name, model)
  assert len(set(rolled("one device", model).counts.tolist())) > 1
  for a, b in zip(one, many):
    tiny.close(a.learners["policy"].params, b.learners["policy"].params, 1e-5)
    tiny.close(a.stats, b.stats)
  for metric, value in one_metrics.items():
    np.testing.assert_allclose(
      value, many_metrics[metric], rtol=1e-3, atol=1e-4, err_msg=metric
    )


@pytest.mark.parametrize("model, name", PAIRS)
def test_the_state_stays_where_it_was_put(model, name):
  learn, states, _ = learned(name, model)
  expected = parallel.shardings(states[0], mesh_of(name))
  for state in states:
    for leaf, where in zip(*map(jax.tree.leaves, (state, expected))):
      assert leaf.sharding.is_equivalent_to(where, leaf.ndim), where
  assert learn._cache_size() == 1
  # Arguments may be looked up by a second entry without being compiled.
  draft = other_rows(rolled("one device", model))
  counter = metrics.CompileCounter()
  learn(states[-1], tiny.SETTINGS, draft)
  counter.close()
  assert not counter.names


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


# The same on data=2,tensor=2,expert=2.
HELD_OF_EXPERTS = {
  "params/layers/experts/gate": ((1, 4, 32, 16), (1, 2, 32, 8)),
  "params/layers/experts/down": ((1, 4, 16, 32), (1, 2, 8, 32)),
  "params/layers/experts/router/kernel": ((1, 32, 4), (1, 32, 4)),
  "mu/layers/experts/up": ((1, 4, 32, 16), (1, 2, 32, 8)),
  "params/layers/o/kernel": ((1, 32, 32), (1, 16, 32)),
}


@pytest.mark.parametrize("path", HELD)
def test_what_a_device_holds(path):
  _, states, _ = learned("data=2,fsdp=2,tensor=2")
  holds(states[-1], path, *HELD[path])


@pytest.mark.parametrize("path", HELD_OF_EXPERTS)
def test_what_a_device_holds_of_experts(path):
  _, states, _ = learned("data=2,tensor=2,expert=2", "moe")
  holds(states[-1], path, *HELD_OF_EXPERTS[path])


def holds(state, path, shape, shard):
  found = [
    leaf
    for where, leaf in jax.tree_util.tree_leaves_with_path(state)
    if jax.tree_util.keystr(where, simple=True, separator="/").endswith(path)
  ]
  assert len(found) == 1 and found[0].shape == shape
  assert found[0].addressable_shards[0].data.shape == shard
  assert len({s.device for s in found[0].addressable_shards}) == 8
