"""Prompts of moderate difficulty, by what is believed of their solve rates.

The criterion is that of Sun et al. 2025, arXiv:2506.05316.
"""

import functools

from jaxroll import allocate, select
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def moderate(
  sizes: Sizes,
  *,
  target: float = 0.5,
  temperature: float = 0.05,
) -> Recipe:
  """The recipe of prompts drawn by closeness to a solve rate.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    target: solve rate wanted, in [0, 1].
    temperature: of the draw, > 0; small is greedy.

  Returns:
    A `Recipe`.
  """
  del sizes
  return Recipe(
    name="moderate",
    allocate=allocate.uniform(),
    select=(
      functools.partial(
        select.moderate, target=target, temperature=temperature
      ),
    ),
  )
