"""Where do activations lie, and is every shard's work the same?"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as Spec

from jaxroll import models, parallel
from tests.models import tiny


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


# --- constraints


def test_without_a_mesh_nothing_is_said():
  x = jnp.zeros((8, 4))
  assert parallel.constrain(x, parallel.ROW_AXES, "tensor") is x
  assert parallel.free_axes() == {}
  policy = models.policy(tiny.config())
  assert parallel.bound(policy, None) is policy


def test_what_is_constrained():
  mesh = parallel.make_mesh(data=2, fsdp=2, tensor=2)
  context = jax.sharding.use_abstract_mesh(mesh.abstract_mesh)

  def place(x):
    with context:
      return parallel.constrain(x, parallel.ROW_AXES, "tensor")

  whole = jax.device_put(jnp.zeros((8, 4, 3)), NamedSharding(mesh, Spec()))
  out = jax.jit(place)(whole)
  where = NamedSharding(mesh, Spec(("data", "fsdp"), "tensor"))
  assert out.sharding.is_equivalent_to(where, 3)


def test_axes_that_a_caller_has_split_are_gone():
  mesh = parallel.make_mesh(data=2, fsdp=2, tensor=2)
  seen = []

  def local(x):
    seen.append(parallel.free_axes())
    return parallel.constrain(x, parallel.ROW_AXES, "tensor")

  split = Spec(parallel.ROW_AXES)
  jax.jit(
    jax.shard_map(
      local,
      mesh=mesh,
      in_specs=split,
      out_specs=split,
      axis_names=set(parallel.ROW_AXES),
    )
  )(jnp.zeros((8, 4)))
  assert seen[-1] == {"tensor": 2, "expert": 1}


@pytest.mark.parametrize(
  "heads, kv_heads, tensor, held",
  [
    (4, 2, 2, 2),  # one each
    (8, 2, 8, 8),  # each of two for four devices
    (4, 1, 4, 4),
    (6, 3, 2, 6),  # three do not divide by two: each twice
    (4, 2, 8, 2),  # no query head for every device: as without a mesh
  ],
)
def test_kv_heads_of_a_cache(heads, kv_heads, tensor, held):
  mesh = parallel.make_mesh(tensor=tensor)
  config = tiny.config(heads=heads, kv_heads=kv_heads)
  policy = parallel.bound(models.policy(config), mesh)
  cache = jax.eval_shape(lambda: policy.init_cache(3, 5))
  assert cache.keys[0].shape == (3, held, 5, config.head_dim)


# --- equal work


def tokens_by_shard(length, shards):
  return np.asarray(length).reshape(shards, -1).sum(axis=1)


@pytest.mark.parametrize("shards", [2, 4, 8])
def test_shards_get_the_same_tokens(shards):
  """Groups stand together, and a hard prompt's rows are all long."""
  rng = np.random.default_rng(0)
  groups = np.repeat(np.arange(16), rng.multinomial(48, np.ones(16) / 16) + 1)
  length = rng.integers(1, 200, 16)[groups] + rng.integers(0, 20, 64)
  in_blocks = tokens_by_shard(length, shards)
  order = np.asarray(parallel.spread(jnp.asarray(length), shards))
  assert sorted(order.tolist()) == list(range(64))
  spread = tokens_by_shard(length[order], shards)
  assert np.ptp(spread) <= length.max() - length.min()
  assert (
    spread.max() / spread.mean() < 1.04 < in_blocks.max() / in_blocks.mean()
  )


def test_equal_rows_are_dealt_in_order():
  order = parallel.spread(jnp.ones(6), 3)
  np.testing.assert_array_equal(order, [0, 5, 1, 4, 2, 3])
