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
  "aero": Case(allocate.aero(explore=2, total=6, extra=2), 48, 16, 2, 6, False),
  "ar3po": Case(allocate.ar3po(k=2, stages=3), 48, 16, 2, 6, False),
  "balanced": Case(
    allocate.balanced(group=4, chunk=2, most=6), 48, 16, 2, 6, False
  ),
  "coba": Case(allocate.coba(low=2, high=8, tau=2.0), 48, 15, 2, 8, True),
  "dapo": Case(allocate.dapo(n=2, refills=2), 48, 16, 2, 6, False),
  "dars": Case(allocate.dars(n=2, most=6), 48, 16, 2, 6, False),
  "dart": Case(allocate.dart(), 64, 63, 2, 8, False),
  "e3": Case(allocate.e3(), 64, 31, 4, 12, True),
  "elimination": Case(
    allocate.elimination(chunk=2, rounds=3), 48, 16, 2, 6, False
  ),
  "far": Case(allocate.far(n=2, most=6, chunk=2), 48, 16, 2, 6, False),
  "neyman": Case(allocate.neyman(), 24, 7, 1, 6, True),
  "pilot_commit": Case(
    allocate.pilot_commit(groups=3, pilot=2, commit=6), 28, 27, 2, 6, False
  ),
  # Their counts are the opening alone.
  "slot_elimination": Case(
    allocate.slot_elimination(floor=2, cap=4), 32, 15, 2, 2, False
  ),
  "slot_mixed": Case(allocate.slot_mixed(floor=2), 32, 15, 2, 2, False),
  "slot_variance": Case(allocate.slot_variance(floor=2), 32, 15, 2, 2, False),
  "thompson": Case(allocate.thompson(cap=6), 24, 7, 1, 6, True),
  # Half of 16 rows are roots of 2 rollouts: 4 of the 8 prompts.
  "trace": Case(allocate.trace(n0=2, cap=6), 16, 3, 0, 8, True),
  "uniform": Case(allocate.uniform(), 24, 7, 3, 3, True),
  # 8 x 2, then two rounds of at most 3 for those that go on.
  "v05": Case(allocate.v05(k_init=2, k_max=8, stride=3), 40, 15, 2, 8, False),
  # 8 prompts in rounds of 8 x 2, 4 x 4, 2 x 8.
  "vigor": Case(allocate.vigor(m0=2, rounds=3), 48, 47, 2, 14, True),
  "xrpo": Case(allocate.xrpo(n0=2), 40, 15, 2, 26, True),
}
