"""Successive elimination: a prompt leaves once it is done."""

import functools

import pytest

from jaxroll import allocate
from jaxroll.allocate import until
from tests.allocate import columns
from tests.allocate.stages import first_success, totals

TABLE = [first_success(0), first_success(5), first_success(None), [1.0] * 12]


@pytest.mark.parametrize(
  "done, expected",
  [
    # The first unequal reward, the first success, two of each.
    (until.mixed, [4, 8, 12, 12]),
    (until.solved, [4, 8, 12, 4]),
    (functools.partial(until.balanced, group=4), [12, 12, 12, 12]),
  ],
)
def test_when_a_prompt_leaves(done, expected):
  allocator = allocate.elimination(chunk=4, rounds=3, done=done)
  assert totals(allocator, 48, TABLE) == expected


def test_balanced_prompts_leave():
  allocator = allocate.elimination(
    chunk=4, rounds=3, done=functools.partial(until.balanced, group=4)
  )
  table = [[1.0, 0.0, 1.0, 0.0], [1.0] * 6 + [0.0] * 6, *TABLE[2:]]
  assert totals(allocator, 48, table) == [4, 8, 12, 12]


def test_what_is_done():
  tally = columns.tally([[], [0.0], [1.0, 1.0], [0.0, 1.0]])
  assert until.solved(tally).tolist() == [False, False, True, True]
  assert until.mixed(tally).tolist() == [False, False, False, True]
  two = until.balanced(tally, group=2)
  assert two.tolist() == [False, False, False, True]


def test_plan():
  assert allocate.elimination().rounds(999, 4) == (32,) * 4
  assert allocate.elimination(chunk=1).rounds(6, 4) == (4, 2)
  with pytest.raises(ValueError, match="elimination needs .*budget=32: raise"):
    allocate.elimination().rounds(32, 4)


@pytest.mark.parametrize("hyper", [{"chunk": 0}, {"rounds": 0}])
def test_refuses(hyper):
  with pytest.raises(ValueError, match="must be >= 1"):
    allocate.elimination(**hyper)
