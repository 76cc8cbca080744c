"""Prompts of a target difficulty count for more.

DataFlex-RL 2026, arXiv:2609.06107.
"""

import functools

from jaxroll import advantage, allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def bell_weight(
  sizes: Sizes, *, target: float = 0.5, width: float = 0.2
) -> Recipe:
  """The recipe of weights around a target pass rate.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    target, width: see `advantage.bell_weight`.

  Returns:
    A `Recipe`.
  """
  del sizes
  weight = functools.partial(advantage.bell_weight, target=target, width=width)
  return Recipe(
    name="bell_weight",
    allocate=allocate.uniform(),
    advantage=(advantage.grpo, weight),
  )
