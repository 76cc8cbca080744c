"""What does every method compare to? Random prompts, equal groups, GRPO.

Shao et al. 2024, arXiv:2402.03300.
"""

from jaxroll import allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def uniform(sizes: Sizes) -> Recipe:
  """The baseline recipe.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.

  Returns:
    A `Recipe`.
  """
  del sizes
  return Recipe(name="uniform", allocate=allocate.uniform())
