"""Prompts as arms of a bandit, by draws of what they may pay.

Raj & Kalyani 2017, arXiv:1707.09727; under drift: arXiv:2503.22595.
"""

from jaxroll import allocate, select
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def thompson_select(
  sizes: Sizes,
  *,
  gamma: float = 0.99,
) -> Recipe:
  """The recipe of discounted Thompson sampling over prompts.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    gamma: kept of the old sums at every step, in [0, 1].

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a number is out of range.
  """
  del sizes
  return Recipe(
    name="thompson_select",
    allocate=allocate.uniform(),
    select=(select.thompson(gamma=gamma),),
  )
