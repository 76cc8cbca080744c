"""ROLL's query filter: prompts whose mean reward is away from both ends.

arXiv:2506.06122.
"""

import functools

from jaxroll import allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def roll(sizes: Sizes, *, low: float = 0.1, high: float = 0.9) -> Recipe:
  """The recipe of ROLL's mean filter.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    low, high: see `keep.mean_between`.

  Returns:
    A `Recipe`.

  Note:
    Both bounds are derived here: the library's own let every prompt pass. Its
    other filter is `keep.std_above`.
  """
  del sizes
  between = functools.partial(keep.mean_between, low=low, high=high)
  return Recipe(name="roll", allocate=allocate.uniform(), keep=(between,))
