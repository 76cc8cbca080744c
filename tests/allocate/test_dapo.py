"""DAPO's refill: flat groups are drawn again."""

import pytest

from jaxroll import allocate
from tests.allocate.stages import first_success, totals, wanted


def test_flat_groups_are_refilled():
  # Mixed at once; mixed in the second draw; never; all right.
  table = [first_success(0), first_success(5), first_success(None), [1.0] * 12]
  assert totals(allocate.dapo(n=4, refills=2), 48, table) == [4, 8, 12, 12]


def test_ties_that_are_not_whole_are_flat():
  rewards = [[0.1] * 4, [0.1, 0.1, 0.1, 0.2], [], [1.0] * 4]
  given = [4, 4, 4, 4]
  allocator = allocate.dapo(n=4, refills=1)
  assert wanted(allocator, rewards, 16, given=given) == [4, 0, 4, 4]


def test_plan():
  assert allocate.dapo(n=4, refills=1).rounds(99, 4) == (16, 16)
  assert allocate.dapo(n=4, refills=0).rounds(16, 4) == (16,)
  assert allocate.dapo().rounds(128, 4) == (64, 64)
  with pytest.raises(ValueError, match="dapo needs at least 65 .*budget=64"):
    allocate.dapo().rounds(64, 4)


@pytest.mark.parametrize("hyper", [{"n": 0}, {"refills": -1}])
def test_refuses(hyper):
  with pytest.raises(ValueError, match="n=.*refills="):
    allocate.dapo(**hyper)
