"""Probability at the slot: a free one goes where a mixed group is likeliest.

Rows are allocated inside the decode loop, so the task's verifier must be
jittable. Only the allocation differs from the baseline. Derived here.
"""

from jaxroll import allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def slot_mixed(
  sizes: Sizes, *, floor: int = 2, cap: int | None = None
) -> Recipe:
  """The baseline with `allocate.slot_mixed`.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    floor, cap: see `allocate.slot_mixed`.

  Returns:
    A `Recipe` for `train.fused`.
  """
  del sizes
  rule = allocate.slot_mixed(floor=floor, cap=cap)
  return Recipe(name="slot_mixed", allocate=rule)
