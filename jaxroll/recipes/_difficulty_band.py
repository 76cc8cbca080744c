"""Training on prompts of a middling pass rate in this step.

DataFlex-RL 2026, arXiv:2609.06107.
"""

import functools

from jaxroll import allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def difficulty_band(
  sizes: Sizes, *, low: float = 0.2, high: float = 0.8
) -> Recipe:
  """The recipe of a difficulty band, masked after the advantages.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    low, high: see `keep.difficulty_band`.

  Returns:
    A `Recipe`.
  """
  del sizes
  band = functools.partial(keep.difficulty_band, low=low, high=high)
  return Recipe(
    name="difficulty_band", allocate=allocate.uniform(), keep_loss=(band,)
  )
