"""Prompts as arms of a bandit, by the upper bound of what they may pay.

Auer et al. 2002; under drift: arXiv:2503.22595.
"""

from jaxroll import allocate, select
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def ucb(
  sizes: Sizes,
  *,
  scale: float = 2**0.5,
  gamma: float = 0.99,
) -> Recipe:
  """The recipe of UCB1 over prompts.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    scale: width of the exploration bonus, >= 0.
    gamma: kept of the old sums at every step, in [0, 1].

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a number is out of range.
  """
  del sizes
  return Recipe(
    name="ucb",
    allocate=allocate.uniform(),
    select=(select.ucb(scale=scale, gamma=gamma),),
  )
