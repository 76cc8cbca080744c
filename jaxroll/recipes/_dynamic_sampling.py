"""DAPO's filter: no training on groups without contrast.

Yu et al. 2025, arXiv:2503.14476.
"""

from jaxroll import allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def dynamic_sampling(sizes: Sizes) -> Recipe:
  """The recipe that drops tied groups, and nothing else of DAPO.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.

  Returns:
    A `Recipe`.
  """
  del sizes
  return Recipe(
    name="dynamic_sampling", allocate=allocate.uniform(), keep=(keep.mixed,)
  )
