"""Variance at the slot: a free one goes where a mean becomes most certain.

Rows are allocated inside the decode loop, so the task's verifier must be
jittable. Only the allocation differs from the baseline. Derived here.
"""

from jaxroll import allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def slot_variance(
  sizes: Sizes, *, floor: int = 2, cap: int | None = None
) -> Recipe:
  """The baseline with `allocate.slot_variance`.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    floor, cap: see `allocate.slot_variance`.

  Returns:
    A `Recipe` for `train.fused`.
  """
  del sizes
  rule = allocate.slot_variance(floor=floor, cap=cap)
  return Recipe(name="slot_variance", allocate=rule)
