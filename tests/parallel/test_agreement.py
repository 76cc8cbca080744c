"""Does a forced row have the log-probs of one device, whatever the mesh?

Rows of uneven groups with limits of their own, so that every shard's queue runs
another number of steps, also where a tensor and an expert axis are inside.
"""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import models, parallel, rollout
from tests.models import tiny
from tests.rollout import hlo, rule4, toys

MESHES = {
  "data=8": dict(data=8),
  "fsdp=8": dict(data=1, fsdp=8),
  "tensor=8": dict(data=1, tensor=8),
  "data=2,fsdp=2,tensor=2": dict(data=2, fsdp=2, tensor=2),
  "data=2,tensor=2,expert=2": dict(data=2, tensor=2, expert=2),
}
MODELS = {
  "dense": {"qkv_bias": True},
  "moe": {"experts": models.Experts(4, 2), "qk_norm": True},
}
# Rows of contexts 0 0 0 0 0 1 2 3; two limits are equal.
CONTEXT = jnp.array([0, 0, 0, 0, 0, 1, 2, 3], jnp.int32)
LIMIT = jnp.array([7, 2, 1, 3, 6, 5, 3, 4], jnp.int32)


@functools.cache
def network(model):
  return tiny.network(vocab_size=toys.V, **MODELS[model])


def arguments(params, asked):
  return (
    params,
    toys.CONTEXTS,
    asked,
    toys.keys_of(asked),
    rollout.sampler(toys.TEMPERATURE),
    rollout.stops(()),
  )


@functools.cache
def alone(model):
  """The rows of one device and the request that forces their tokens."""
  policy, params = network(model)
  asked = toys.request(limit=LIMIT).replace(context=CONTEXT, group=CONTEXT)
  rows, _ = toys.jitted(policy, 3)(*arguments(params, asked))
  return rows, rule4.force(asked, rows)


@functools.cache
def forced(model, name):
  """Rows forced through a mesh's program, its Info and its HLO."""
  policy, params = network(model)
  mesh = parallel.make_mesh(**MESHES[name])
  params = jax.device_put(params, parallel.shardings(params, mesh))
  given = arguments(params, alone(model)[1])
  program = toys.jitted(policy, 8, mesh=mesh).lower(*given).compile()
  return *program(*given), program.as_text()


@pytest.mark.parametrize("name", MESHES)
@pytest.mark.parametrize("model", MODELS)
def test_forced_rows_have_the_same_log_probs(model, name):
  policy, params = network(model)
  (one, _), (rows, info, _) = alone(model), forced(model, name)
  tolerance = rule4.tolerance(policy, params, toys.CONTEXTS, one)
  np.testing.assert_array_equal(rows.tokens, one.tokens)
  np.testing.assert_array_equal(rows.length, LIMIT)
  gap = np.abs(rows.behaviour_logp - one.behaviour_logp).max()
  assert gap <= tolerance
  # By hand, limits dealt from the highest: 7 6 5 4 3 3 2 1. A shard runs as
  # long as the first row that it gets; each has as many slots as rows.
  shards = parallel.row_shards(parallel.make_mesh(**MESHES[name]))
  trips = {1: [7], 2: [7, 6], 4: [7, 6, 5, 4], 8: [7, 6, 5, 4, 3, 3, 2, 1]}
  assert info.decode_steps == 7
  assert info.slot_steps == sum(trips[shards]) * (8 // shards)


def test_experts_stay_where_they_are():
  """No device is sent another's experts, neither before nor in the loop."""
  text = forced("moe", "data=2,tensor=2,expert=2")[2]
  sizes = re.compile(
    r"f32\[(\d+,)?(4,16,(12|24)|4,(12|24),16|2,16,24|2,24,16)\]"
  )
  made = [
    i
    for instructions in hlo.computations(text).values()
    for i in instructions
    if hlo.COLLECTIVE.match(i.opcode)
  ]
  assert made
  assert not [i.text for i in made if sizes.search(i.shape)]


def test_order_and_lengths_do_not_compile_again():
  policy, params = network("dense")
  mesh = parallel.make_mesh(data=2, fsdp=2, tensor=2)
  params = jax.device_put(params, parallel.shardings(params, mesh))
  run = toys.jitted(policy, 8, mesh=mesh)
  asked = alone("dense")[1]
  order = jnp.array([3, 1, 7, 0, 2, 6, 5, 4])
  for request in (
    asked,
    jax.tree.map(lambda x: x[order], asked),
    asked.replace(limit=LIMIT[::-1], valid=LIMIT > 2),
  ):
    run(*arguments(params, request))
  assert run._cache_size() == 1
