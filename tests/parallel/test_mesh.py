"""Which meshes and sizes are there, and what is said of those that are not?"""

import re

import jax
import pytest

from jaxroll import parallel, train
from tests.train import tiny


def test_one_size_takes_what_is_left():
  assert dict(parallel.make_mesh().shape) == {
    "data": 8,
    "fsdp": 1,
    "tensor": 1,
    "expert": 1,
  }
  mesh = parallel.make_mesh(data=2, fsdp=-1, tensor=2)
  assert mesh.axis_names == parallel.AXES
  assert parallel.AXES == ("data", "fsdp", "tensor", "expert")
  assert mesh.devices.shape == (2, 2, 2, 1)
  some = parallel.make_mesh(fsdp=2, devices=jax.devices()[:4])
  assert some.devices.shape == (2, 2, 1, 1)
  assert parallel.make_mesh(2, 2, 1, expert=2).shape["expert"] == 2


@pytest.mark.parametrize(
  "sizes, words",
  [
    # By hand: the fewest doublings away, ties to the smaller first axes.
    (
      dict(data=3),
      "'data': 3.*8 devices.*to 8; nearest: data=8; data=4, fsdp=2;",
    ),
    (dict(data=2, fsdp=2), "'fsdp': 2.*nearest: data=4, fsdp=2; "),
    (dict(data=-1, tensor=3), "'tensor': 3.*nearest: data=2, tensor=4; "),
    (dict(data=-1, tensor=16), "'tensor': 16.*nearest: tensor=8; "),
    (dict(data=2, expert=8), "'expert': 8.*nearest: data=2, expert=4; "),
    (dict(data=-1, fsdp=-1), "'fsdp': -1.*at most one is -1"),
    (dict(data=0), "'data': 0.*sizes are >= 1"),
    (dict(data=8, tensor=-2), "'tensor': -2.*sizes are >= 1"),
  ],
)
def test_sizes_that_do_not_fit(sizes, words):
  with pytest.raises(ValueError, match=words) as error:
    parallel.make_mesh(**sizes)
  assert re.search(r"mesh \{'data'", str(error.value))


def test_sizes_that_the_row_shards_do_not_divide():
  mesh = parallel.make_mesh(data=2, fsdp=2, tensor=2)
  assert parallel.row_shards(mesh) == 4 and parallel.row_shards(None) == 1
  assert parallel.round_up(5, mesh) == 8 and parallel.round_up(5, None) == 5
  parallel.check(mesh, {"rows": 32, "micro_rows": 8})
  parallel.check(None, {"rows": 3})
  with pytest.raises(ValueError) as error:
    parallel.check(mesh, {"rows": 30, "slots": 8, "micro_rows": 3})
  assert str(error.value) == (
    "rows=30, micro_rows=3 cannot be split over 4 shards of rows "
    "(data=2 x fsdp=2): take rows=28 or 32, micro_rows=4, or another mesh"
  )


def test_a_step_is_refused_before_it_runs():
  mesh = parallel.make_mesh(data=8)
  make = lambda rules, micro_rows: train.make_step(  # noqa: E731
    rules,
    tiny.TASK,
    tiny.POLICY,
    tiny.OPTIMISER,
    tiny.SIZES,
    slots=3,
    micro_rows=micro_rows,
    mesh=mesh,
  )
  with pytest.raises(ValueError, match="take micro_rows=8 or 16"):
    make(tiny.RECIPES["uniform"](tiny.SIZES), 12)
  make(tiny.RECIPES["uniform"](tiny.SIZES), 16)
