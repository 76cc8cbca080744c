"""DARS with hardness weighting: the harder a prompt, the more it weighs.

A second pass for hard prompts, no standardisation, and no groups that are all
right or all wrong. Yang et al. 2025, arXiv:2508.13755.
"""

import functools

from jaxroll import advantage, allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.recipes._budget import rows_a_prompt
from jaxroll.types import Sizes


def dars_hw(
  sizes: Sizes,
  *,
  n: int | None = None,
  most: int | None = None,
  upper: float = 1.0,
) -> Recipe:
  """The recipe of DARS-HW.

  Args:
    sizes: the run's.
    n: rollouts of the first pass; None takes the paper's 8, or half of what
      the budget has for each prompt if that is less.
    most: most rollouts of a prompt; None takes 8 n, the paper's 64 of 8.
    upper: mean reward from which on a group is dropped.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where the budget is below 4 rows a prompt.
  """
  rows = rows_a_prompt("dars_hw", sizes, least=4)
  n = min(8, rows // 2) if n is None else n
  most = 8 * n if most is None else most
  target = allocate.lift.hardness_weighted
  return Recipe(
    name="dars_hw",
    allocate=allocate.dars(n=n, most=most, target=target),
    keep=(functools.partial(keep.mean_between, low=0.0, high=upper),),
    advantage=(advantage.dr_grpo,),
  )
