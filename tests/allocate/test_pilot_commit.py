"""Pilots for new prompts, commits for waiting ones."""

import jax
import jax.numpy as jnp
import pytest

from jaxroll import allocate
from tests.allocate import columns


def _counts(waiting, rows, **kwargs):
  allocator = allocate.pilot_commit(**kwargs)
  return allocator.counts(
    columns.stats(4),
    jnp.array(waiting),
    round=0,
    rows=rows,
    key=jax.random.key(0),
  ).tolist()


def test_defaults_give_groups_of_sixteen_with_the_pilots():
  # 2 commits of 12 and 2 pilots of 4.
  assert allocate.pilot_commit(groups=2).rounds(40, 4) == (32,)
  waiting = [True, False, False, True]
  assert _counts(waiting, 32, groups=2) == [12, 4, 4, 12]
  assert _counts([False] * 4, 32, groups=2) == [4, 4, 4, 4]


def test_more_waiting_groups_than_planned_are_cut_at_the_rows():
  # The plan for one waiting group: 6 + 3 * 2 = 12 rows, in order of place.
  kwargs = {"groups": 1, "pilot": 2, "commit": 6}
  assert allocate.pilot_commit(**kwargs).rounds(12, 4) == (12,)
  assert _counts([True] * 4, 12, **kwargs) == [6, 6, 0, 0]


@pytest.mark.parametrize(
  "kwargs, words",
  [
    ({"groups": 0}, "groups=0 must be >= 1"),
    ({"groups": 1, "pilot": 0}, "pilot=0"),
    ({"groups": 1, "pilot": 5, "commit": 4}, "pilot=5, commit=4"),
  ],
)
def test_bad_numbers_are_refused(kwargs, words):
  with pytest.raises(ValueError, match=words):
    allocate.pilot_commit(**kwargs)


def test_infeasible_budgets_are_refused():
  allocator = allocate.pilot_commit(groups=2, pilot=2, commit=6)
  with pytest.raises(ValueError, match="needs 16 rows .*budget=15"):
    allocator.rounds(15, 4)
  with pytest.raises(ValueError, match="groups=2 > P=1"):
    allocator.rounds(100, 1)
