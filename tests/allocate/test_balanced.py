"""Balanced adaptive rollouts: stop with half a group of each sign."""

import pytest

from jaxroll import allocate
from jaxroll.allocate import until
from tests.allocate import columns
from tests.allocate.stages import first_success, totals, wanted


def test_worked_values():
  # 1,0,1,0,1,1,0,0; successes at draws 10 and 14 only; six 1s, 0, five 1s,
  # then 0s; nothing but 0.
  late = [float(i in (9, 13)) for i in range(32)]
  table = [
    [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0],
    late,
    [1.0] * 6 + [0.0] + [1.0] * 5 + [0.0] * 20,
    first_success(None),
  ]
  assert totals(allocate.balanced(), 128, table) == [8, 32, 16, 32]


def test_odd_groups_hold_the_smaller_half_of_right_rows():
  rewards = [[1.0, 1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0, 0.0]]
  done = until.balanced(columns.tally(rewards), group=5)
  assert done.tolist() == [True, False]
  with pytest.raises(ValueError, match="group=1 must be >= 2"):
    until.balanced(columns.tally(rewards), group=1)


def test_plan():
  assert allocate.balanced().rounds(999, 4) == (16,) * 8
  assert allocate.balanced(most=9).rounds(30, 4) == (16, 14)
  assert allocate.balanced(group=2, chunk=4, most=3).rounds(12, 4) == (12,)
  with pytest.raises(ValueError, match="needs at least 17 .*budget=16: raise"):
    allocate.balanced().rounds(16, 4)


def test_stops_at_the_cap():
  given = [30, 32, 8, 8]
  rewards = [[0.0] * n for n in given]
  assert wanted(allocate.balanced(), rewards, 16) == [2, 0, 4, 4]


@pytest.mark.parametrize(
  "hyper, words",
  [
    ({"group": 1}, "group=1"),
    ({"most": 7}, "group=8, most=7"),
    ({"chunk": 0}, "chunk=0"),
  ],
)
def test_refuses(hyper, words):
  with pytest.raises(ValueError, match=words):
    allocate.balanced(**hyper)
