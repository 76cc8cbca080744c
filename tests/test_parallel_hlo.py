"""hlo, costs, chips: loops count as often as they run, groups are read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from jaxroll import parallel
from jaxroll.parallel import chips, costs, hlo

# A scan of 5 over [4, 8] x [8, 8] products with a gather of weights, then a
# loop whose end depends on data and that gathers what it never changes.
TYPED = """HloModule typed, num_partitions=4

%fused (p0: f32[4,8], p1: f32[8,8]) -> f32[4,8] {
  %p0 = f32[4,8]{1,0} parameter(0)
  %p1 = f32[8,8]{1,0} parameter(1)
  ROOT %d = f32[4,8]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, \
rhs_contracting_dims={0}
}

%scan_body (a: (s32[], f32[4,8], f32[2,8])) -> (s32[], f32[4,8], f32[2,8]) {
  %a = (s32[], f32[4,8]{1,0}, /*index=2*/f32[2,8]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%a), index=0
  %x = f32[4,8]{1,0:T(8,128)} get-tuple-element(%a), index=1
  %w = f32[2,8]{1,0} get-tuple-element(%a), index=2
  %g = f32[8,8]{1,0} all-gather(%w), channel_id=1, \
replica_groups=[1,4]<=[4], dimensions={0}
  %y = f32[4,8]{1,0} fusion(%x, %g), kind=kOutput, calls=%fused
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  ROOT %t = (s32[], f32[4,8]{1,0}, f32[2,8]{1,0}) tuple(%next, %y, %w)
}

%scan_test (a: (s32[], f32[4,8], f32[2,8])) -> pred[] {
  %a.1 = (s32[], f32[4,8]{1,0}, f32[2,8]{1,0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%a.1), index=0
  %n = s32[] constant(5)
  ROOT %lt = pred[] compare(%i.1, %n), direction=LT
}

%open_body (a: (f32[4,8], f32[2,8])) -> (f32[4,8], f32[2,8]) {
  %b = (f32[4,8]{1,0}, f32[2,8]{1,0}) parameter(0)
  %x.2 = f32[4,8]{1,0} get-tuple-element(%b), index=0
  %w.2 = f32[2,8]{1,0} get-tuple-element(%b), index=1
  %g.2 = f32[8,8]{1,0} all-gather(%w.2), channel_id=2, \
replica_groups={{0,1,2,3}}, dimensions={0}
  %y.2 = f32[4,8]{1,0} fusion(%x.2, %g.2), kind=kOutput, calls=%fused
  %r.2 = f32[4,8]{1,0} all-reduce(%y.2), channel_id=3, \
replica_groups={{0,2},{1,3}}, to_apply=%sum
  ROOT %t.2 = (f32[4,8]{1,0}, f32[2,8]{1,0}) tuple(%r.2, %w.2)
}

%open_test (a: (f32[4,8], f32[2,8])) -> pred[] {
  %b.1 = (f32[4,8]{1,0}, f32[2,8]{1,0}) parameter(0)
  ROOT %never = pred[] custom-call(%b.1), custom_call_target="x"
}

ENTRY %main (x: f32[4,8], w: f32[2,8]) -> f32[4,8] {
  %x.0 = f32[4,8]{1,0} parameter(0)
  %w.0 = f32[2,8]{1,0} parameter(1)
  %zero = s32[] constant(0)
  %start = (s32[], f32[4,8]{1,0}, f32[2,8]{1,0}) tuple(%zero, %x.0, %w.0)
  %loop = (s32[], f32[4,8]{1,0}, f32[2,8]{1,0}) while(%start), \
condition=%scan_test, body=%scan_body
  %out = f32[4,8]{1,0} get-tuple-element(%loop), index=1
  %near = f32[4,8]{1,0:T(8,128)S(1)} copy(%out)
  %second = (f32[4,8]{1,0}, f32[2,8]{1,0}) tuple(%near, %w.0)
  %open = (f32[4,8]{1,0}, f32[2,8]{1,0}) while(%second), \
condition=%open_test, body=%open_body
  ROOT %end = f32[4,8]{1,0} get-tuple-element(%open), index=0
}
"""
MESH = {"data": 1, "fsdp": 2, "tensor": 2}


def test_a_typed_module():
  module = hlo.parse(TYPED)
  found = costs.of_module(module, MESH)
  assert found.flops == 5 * 2 * 4 * 8 * 8
  (gather,) = found.collectives
  assert gather == costs.Collective(
    "all-gather", ("fsdp", "tensor"), 5, 5 * 256, 5 * 256 * 3 / 4, False
  )
  # Per scan: gather 64 + 256, fusion 128 + 256 + 128, counter 4 + 4 + 4, and
  # 4 + 4 + 1 of the test; then the copy reads 128 and writes on the chip.
  assert found.bytes == 5 * (320 + 512 + 12 + 9) + 128
  (loop,) = found.open_loops
  assert (loop.loop.name, loop.times) == ("open", 1)
  once = costs.of_iteration(module, loop.loop, MESH)
  assert once.flops == 2 * 4 * 8 * 8
  gather, reduce = once.collectives
  assert gather.fixed and gather.bytes == 256
  assert not reduce.fixed and reduce.axes == ("fsdp",)
  assert reduce.wire == 2 * 128 / 2


def test_a_compiled_scan_counts_its_trips():
  mesh = parallel.make_mesh(fsdp=8)
  split = NamedSharding(mesh, PartitionSpec("fsdp"))
  weights = jax.ShapeDtypeStruct((8, 16), jnp.float32, sharding=split)
  rows = jax.ShapeDtypeStruct((16, 8), jnp.float32, sharding=split)

  def five(x, w):
    def one(x, _):
      return jnp.tanh(x @ w @ w.T), None

    return jax.lax.scan(one, x, length=5)[0]

  text = jax.jit(five).lower(rows, weights).compile().as_text()
  found = costs.of_module(hlo.parse(text), dict(mesh.shape))
  # Rows are split: a device has 2 of them.
  assert found.flops == 5 * 2 * (2 * 2 * 8 * 16)
  assert not found.open_loops
  gathered = [c for c in found.collectives if c.kind == "all-gather"]
  assert all(c.axes == ("fsdp",) for c in gathered)
  # As often as once, or 5 times, where the compiler leaves it in the loop.
  assert sum(c.bytes for c in gathered) % (8 * 16 * 4) == 0
  assert gathered


@pytest.mark.parametrize(
  "text, expected",
  [
    ("replica_groups={{0,1},{2,3}}, x", [[0, 1], [2, 3]]),
    ("replica_groups={}, x", [[0, 1, 2, 3]]),
    ("replica_groups=[2,2]<=[4], x", [[0, 1], [2, 3]]),
    ("replica_groups=[2,2]<=[2,2]T(1,0), x", [[0, 2], [1, 3]]),
    ("source_target_pairs={{0,1},{1,0}}, x", [[0, 1], [1, 0]]),
    ("replica_groups=mesh['a'=2,'b'=2] {'a'}, x", [[0, 2], [1, 3]]),
    ("replica_groups=mesh['a'=4] {'a':(2)2}, x", [[0, 1], [2, 3]]),
    (
      "replica_groups=mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}, x",
      [[0, 2], [1, 3]],
    ),
  ],
)
def test_notations_of_groups(text, expected):
  assert hlo.replica_groups(text, 4).tolist() == expected


def test_what_cannot_be_read_is_an_error():
  with pytest.raises(ValueError, match="another notation"):
    hlo.replica_groups("replica_groups=?", 4)
  with pytest.raises(ValueError, match="no ENTRY"):
    hlo.parse("nothing")
  assert hlo.axes_of(np.array([[0, 1]]), {"data": 2, "tensor": 2}) == (
    "tensor",
  )


def test_a_batch_written_as_a_padded_window_counts_once():
  """The TPU's compiler makes a window of a product's batch axis.

  64 batches of [3, 64] x [64, 512]: a window of 64 over an input spread by 64,
  of which each output meets one element.
  """
  convolution = hlo.Instruction(
    "c",
    (hlo.Shape("f32", (64, 3, 512, 3)),),
    "convolution",
    ("a", "b"),
    ", window={size=64x3 stride=63x2 lhs_dilate=64x3}, "
    "dim_labels=01bf_01oi->01bf",
    "",
    False,
  )
  shapes = [
    hlo.Shape("bf16", (64, 3, 512, 64)),
    hlo.Shape("bf16", (64, 3, 3, 64)),
  ]
  assert hlo.dot_flops(convolution, shapes) == 2 * 64 * 3 * 512 * 3 * 64


def test_bounds_name_the_limit():
  chip = chips.TPUS["v5e"]
  assert chips.bound(chip, 197e12, 0, 0) == (1.0, 0.0, 0.0)
  found = chips.bound(chip, 0, 819e9, 400e9)
  assert found.limit == "interconnect" and found.seconds == 2.0
