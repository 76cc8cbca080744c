"""WebGym: every source, or grade of difficulty, has an equal share of a step.

WebGym, 2026, arXiv:2601.02439.
"""

from jaxroll import allocate, mixture
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def strata(
  sizes: Sizes,
  *,
  weights: tuple | None = None,
) -> Recipe:
  """The recipe of uniform difficulty.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    weights: one entry a source, or None for equal ones.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a number is out of range.
  """
  del sizes
  return Recipe(
    name="strata",
    allocate=allocate.uniform(),
    mixture=mixture.fixed(weights=weights),
  )
