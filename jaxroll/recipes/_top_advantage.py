"""Training on the rows of the largest advantages of the step.

DataFlex-RL 2026, arXiv:2609.06107.
"""

import functools

from jaxroll import allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def top_advantage(sizes: Sizes, *, fraction: float = 0.5) -> Recipe:
  """The recipe of the top share by |advantage|.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    fraction: see `keep.top_advantage`.

  Returns:
    A `Recipe`.
  """
  del sizes
  top = functools.partial(keep.top_advantage, fraction=fraction)
  return Recipe(
    name="top_advantage", allocate=allocate.uniform(), keep_loss=(top,)
  )
