"""FAR: extra attempts for groups that are all wrong, training on ready ones.

The part within a group of SimpleSearch-VL's factorized adaptive rollout.
arXiv:2606.31504.
"""

from jaxroll import allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.recipes._budget import rows_a_prompt
from jaxroll.types import Sizes


def far(sizes: Sizes, *, most: int | None = None) -> Recipe:
  """The recipe of factorized adaptive rollout, see `allocate.far`.

  Args:
    sizes: the run's.
    most: most attempts of a prompt, half of which all prompts get, the others
      by quarters; None takes 16, or what the budget has for each prompt if
      that is less.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where the budget is below 4 rows a prompt.
  """
  rows = rows_a_prompt("far", sizes, least=4)
  most = min(16, rows) if most is None else most
  return Recipe(
    name="far",
    allocate=allocate.far(n=most // 2, most=most, chunk=max(1, most // 4)),
    keep=(keep.ready,),
  )
