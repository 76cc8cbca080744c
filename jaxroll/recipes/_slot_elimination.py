"""Successive elimination, at the slot: rows until a group is mixed, no further.

Rows are allocated inside the decode loop, so the task's verifier must be
jittable. Only the allocation differs from the baseline. Derived here.
"""

from collections.abc import Callable

from jaxroll import allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def slot_elimination(
  sizes: Sizes,
  *,
  done: Callable = allocate.until.mixed,
  floor: int = 2,
  cap: int | None = 32,
) -> Recipe:
  """The baseline with `allocate.slot_elimination`.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    done, floor, cap: see `allocate.slot_elimination`.

  Returns:
    A `Recipe` for `train.fused`.
  """
  del sizes
  rule = allocate.slot_elimination(done=done, floor=floor, cap=cap)
  return Recipe(name="slot_elimination", allocate=rule)
