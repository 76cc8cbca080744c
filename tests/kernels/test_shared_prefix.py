"""Attention over a shared prefix is attention over everything a row sees."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as Spec

from jaxroll import kernels, types
from jaxroll.kernels import shared_prefix, shared_prefix_tpu

B, H, K, h, P, S, T = 21, 6, 2, 8, 5, 13, 9
LENGTH = np.array([13, 0, 5, 1, 7], np.int32)
# Uneven: 3 has no row, 0 needs two tiles of 16 rows, two rows have no prefix.
GROUP = np.array([0] * 17 + [2, 1, -1, P], np.int32)


@functools.cache
def attention(implementation):
  return jax.jit(
    functools.partial(
      kernels.shared_prefix_attention,
      implementation=implementation,
      interpret=implementation == "pallas",
    )
  )


def draw(seed=0, scale=1.0):
  """Arguments in float32; row 4 has no own column."""
  rng = np.random.default_rng(seed)
  real = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
  positions = np.where(rng.random((B, T)) < 0.5, 3, types.EMPTY)
  positions[4] = types.EMPTY
  return [
    scale * real(B, H, h),
    real(P, K, S, h),
    real(P, K, S, h),
    LENGTH,
    real(B, K, T, h),
    real(B, K, T, h),
    positions.astype(np.int32),
    rng.permutation(GROUP),
  ]


def reference(q, prefix_k, prefix_v, length, own_k, own_v, positions, group):
  """One row and head at a time, in float64."""
  out = np.zeros(q.shape)
  for b in range(len(q)):
    for head in range(q.shape[1]):
      k = head // (q.shape[1] // own_k.shape[1])
      seen = positions[b] != types.EMPTY
      keys, values = own_k[b, k][seen], own_v[b, k][seen]
      if 0 <= group[b] < len(length):
        n = length[group[b]]
        keys = np.concatenate([prefix_k[group[b], k, :n], keys])
        values = np.concatenate([prefix_v[group[b], k, :n], values])
      if len(keys):
        scores = keys.astype(np.float64) @ q[b, head] / math.sqrt(q.shape[2])
        weights = np.exp(scores - scores.max())
        out[b, head] = weights @ values.astype(np.float64) / weights.sum()
  return out


@pytest.fixture(params=kernels.choice.IMPLEMENTATIONS)
def attend(request):
  return attention(request.param)


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_it_is_the_attention_of_each_row(attend, scale):
  arguments = draw(scale=scale)
  np.testing.assert_allclose(
    attend(*arguments), reference(*arguments), atol=2e-6 * scale
  )


def test_who_sees_nothing_gets_zero(attend):
  *rest, positions, group = draw()
  positions[:] = types.EMPTY
  out = np.array(attend(*rest, positions, group))
  alone = ~((group >= 0) & (group < P)) | (group == 1)
  assert (out[alone] == 0).all() and (out[~alone] != 0).any()
  np.testing.assert_allclose(out, reference(*rest, positions, group), atol=2e-6)


def test_ties_are_a_mean(attend):
  arguments = draw()
  arguments[0][:] = 0
  np.testing.assert_allclose(
    attend(*arguments), reference(*arguments), atol=2e-6
  )


def test_what_is_not_seen_changes_nothing(attend):
  q, pk, pv, length, ok, ov, positions, group = draw()
  before = attend(q, pk, pv, length, ok, ov, positions, group)
  unseen = (positions == types.EMPTY)[:, None, :, None]
  behind = (np.arange(S)[None, :] >= length[:, None])[:, None, :, None]
  ok, ov = np.where(unseen, np.float32(1e4), [ok, ov])
  pk, pv = np.where(behind, np.float32(1e4), [pk, pv])
  after = attend(q, pk, pv, length, ok, ov, positions, group)
  np.testing.assert_array_equal(before, after)


def test_rows_may_stand_in_any_order_and_groups_have_any_size(attend):
  *rows_of, group = draw()
  order = np.random.default_rng(1).permutation(B)
  moved = [x[order] if len(x) == B else x for x in rows_of]
  np.testing.assert_allclose(
    attend(*moved, group[order]), attend(*rows_of, group)[order], atol=1e-6
  )
  for groups in (np.zeros(B), np.arange(B) % P, np.full(B, P)):
    arguments = *rows_of, groups.astype(np.int32)
    np.testing.assert_allclose(
      attend(*arguments), reference(*arguments), atol=2e-6
    )
  assert attend._cache_size() == 1


def test_several_blocks(monkeypatch):
  """Blocks that are ragged, skipped, or behind the prefix."""
  monkeypatch.setattr(shared_prefix_tpu, "_PREFIX_COLUMNS", 128)
  monkeypatch.setattr(shared_prefix_tpu, "_OWN_BYTES", 1)
  q, *_, group = draw()
  rng = np.random.default_rng(2)
  pk, pv = rng.normal(size=(2, P, K, 300, h)).astype(np.float32)
  ok, ov = rng.normal(size=(2, B, K, 290, h)).astype(np.float32)
  positions = np.full((B, 290), types.EMPTY, np.int32)
  positions[:7, 280:] = 1  # the last block alone
  positions[7:14, 5:9] = 1
  positions[14:20, ::150] = 1
  length = np.array([300, 0, 128, 129, 1], np.int32)
  arguments = q, pk, pv, length, ok, ov, positions, group
  out = kernels.shared_prefix_attention(
    *map(jnp.asarray, arguments), implementation="pallas", interpret=True
  )
  np.testing.assert_allclose(out, reference(*arguments), atol=2e-6)


def test_which_blocks_are_moved():
  positions = np.full((3, 9), types.EMPTY, np.int32)
  positions[0, [2, 7]] = 0
  positions[1, 4] = 0
  sources = shared_prefix_tpu._sources(jnp.asarray(positions), 2)
  # Blocks 1 and 3; 2 alone, named before it is needed; none.
  assert sources.reshape(3, 5).tolist() == [
    [1, 1, 1, 3, 3],
    [2, 2, 2, 2, 2],
    [0, 0, 0, 0, 0],
  ]


def test_tiles():
  tiles = shared_prefix._deal(jnp.array([2, 0, 2, 5, 2, -1, 0]), 3, 2)
  # (7 + 1 * 3) // 2 = 5 tiles: rows 1 and 6; 0 and 2; 4; unused ones.
  assert tiles.used == 3 and tiles.group.tolist() == [0, 2, 2, 2, 2]
  assert tiles.row.tolist() == [1, 6, 0, 2, 4, 7, 7, 7, 7, 7]
  assert tiles.place.tolist() == [2, 0, 3, 10, 4, 10, 1]


def test_bfloat16_and_one_head_a_kv_head(attend):
  arguments = [
    jnp.asarray(x, jnp.bfloat16 if x.dtype == np.float32 else x.dtype)
    for x in draw()
  ]
  arguments[0] = arguments[0][:, :K]
  out = attend(*arguments)
  assert out.dtype == jnp.bfloat16
  exact = [np.asarray(x) for x in arguments]
  exact = [x if x.dtype == np.int32 else x.astype(np.float32) for x in exact]
  # Values and weights have 8 bits: 4 sigma of their rounding is under 0.03.
  np.testing.assert_allclose(
    out.astype(jnp.float32), reference(*exact), atol=0.03
  )


def test_shards_of_rows_with_their_own_groups():
  """As the engine calls it: under shard_map, with the axes it splits."""
  both = [np.concatenate([x, y]) for x, y in zip(draw(0), draw(3))]
  mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",))
  split = jax.jit(
    jax.shard_map(
      kernels.shared_prefix_attention,
      mesh=mesh,
      in_specs=Spec("data"),
      out_specs=Spec("data"),
      check_vma=False,
    )
  )
  expected = [reference(*draw(seed)) for seed in (0, 3)]
  np.testing.assert_allclose(split(*both), np.concatenate(expected), atol=2e-6)


def test_what_is_refused():
  arguments = [jnp.asarray(x) for x in draw()]
  with pytest.raises(ValueError, match="implementation='cuda': one of"):
    kernels.shared_prefix_attention(*arguments, implementation="cuda")
  with pytest.raises(ValueError, match="5 query heads, 2 kv heads"):
    kernels.shared_prefix_attention(arguments[0][:, :5], *arguments[1:])
  arguments[1:3] = [arguments[1][:, :, :0]] * 2
  with pytest.raises(ValueError, match="S=0 and T=9 columns: at least one"):
    kernels.shared_prefix_attention(*arguments)


def test_off_tpu_plain_jax_is_the_default():
  assert kernels.implementation() == "xla"
  assert kernels.implementation("pallas") == "pallas"
