"""Rows of a large advantage count for more.

DataFlex-RL 2026, arXiv:2609.06107.
"""

import functools

from jaxroll import advantage, allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def softmax_weight(sizes: Sizes, *, temperature: float = 1.0) -> Recipe:
  """The recipe of weights by the size of the advantage.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    temperature: see `advantage.softmax_weight`.

  Returns:
    A `Recipe`.
  """
  del sizes
  weight = functools.partial(advantage.softmax_weight, temperature=temperature)
  return Recipe(
    name="softmax_weight",
    allocate=allocate.uniform(),
    advantage=(advantage.grpo, weight),
  )
