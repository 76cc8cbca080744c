"""One row for each allocator: what the contract needs to know of it."""

from typing import NamedTuple

from jaxroll import allocate
from jaxroll.types import Allocator

NUM_PROMPTS = 8


class Case(NamedTuple):
  """An allocator at P = 8.

  Attributes:
    allocator: what is tested.
    budget: rows it can use, all of them in its dearest step.
    short: a budget that is infeasible.
    floor, cap: rows of a prompt over a whole step.
    spends_all: every round gives out all of its rows.
  """

  allocator: Allocator
  budget: int
  short: int
  floor: int
  cap: int
  spends_all: bool


CASES = {
  "pilot_commit": Case(
    allocate.pilot_commit(groups=3, pilot=2, commit=6), 28, 27, 2, 6, False
  ),
  "uniform": Case(allocate.uniform(), 24, 7, 3, 3, True),
  # 8 prompts in rounds of 8 x 2, 4 x 4, 2 x 8.
  "vigor": Case(allocate.vigor(m0=2, rounds=3), 48, 47, 2, 14, True),
}
