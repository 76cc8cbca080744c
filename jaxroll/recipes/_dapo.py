"""DAPO's dynamic sampling: flat groups are drawn again, mixed ones trained.

Yu et al. 2025, arXiv:2503.14476.
"""

from jaxroll import allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.recipes._budget import rows_a_prompt
from jaxroll.types import Sizes


def dapo(
  sizes: Sizes, *, n: int | None = None, refills: int | None = None
) -> Recipe:
  """The baseline with DAPO's refill of flat groups.

  Args:
    sizes: the run's.
    n: rollouts of a group; None takes the paper's 16, or half of what the
      budget has for each prompt if that is less.
    refills: most further draws of a flat group; None takes what the budget
      has, 9 at most.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where the budget is below 4 rows a prompt.

  Note:
    The paper's changes of the loss are not part of it, so that it compares
    sampling: `trust.clip(high=0.28)` and `reward.overlong` add them.
  """
  rows = rows_a_prompt("dapo", sizes, least=4)
  n = min(16, rows // 2) if n is None else n
  refills = min(9, rows // n - 1) if refills is None else refills
  return Recipe(
    name="dapo",
    allocate=allocate.dapo(n=n, refills=refills),
    keep=(keep.mixed,),
  )
