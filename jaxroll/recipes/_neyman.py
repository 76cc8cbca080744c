"""Neyman allocation: rollouts by the standard deviation of a prompt's reward.

Only the allocation differs from the baseline. Neyman 1934,
doi:10.2307/2342192.
"""

from jaxroll import allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def neyman(sizes: Sizes, *, floor: int = 2, cap: int | None = None) -> Recipe:
  """The recipe of Neyman allocation at the believed solve rates.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    floor, cap: see `allocate.neyman`; a floor of 2 lets each group be mixed.

  Returns:
    A `Recipe`.
  """
  del sizes
  return Recipe(name="neyman", allocate=allocate.neyman(floor=floor, cap=cap))
