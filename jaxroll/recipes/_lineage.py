"""Environment evolution: the next, harder source opens once this one is passed.

arXiv:2609.04128.
"""

from jaxroll import allocate, mixture
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def lineage(
  sizes: Sizes,
  *,
  tau: float = 0.75,
  passes: int | None = None,
) -> Recipe:
  """The recipe of a ladder of sources, open one by one.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    tau: mean reward that a group must exceed to pass, in [0, 1).
    passes: groups that must pass, None for a step's prompts.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a number is out of range.
  """
  del sizes
  return Recipe(
    name="lineage",
    allocate=allocate.uniform(),
    mixture=mixture.lineage(tau=tau, passes=passes),
  )
