"""TableGPT-R1: fixed shares of hard, medium and easy prompts, ratios by row.

TableGPT-R1, 2025, arXiv:2512.20312.
"""

import functools

from jaxroll import allocate, objective, select, trust
from jaxroll.recipe import Recipe
from jaxroll.types import Loss, Sizes


def tablegpt(
  sizes: Sizes,
  *,
  share: tuple = (0.2, 0.6, 0.2),
  low: float = 0.2,
  high: float = 0.28,
) -> Recipe:
  """The recipe of TableGPT-R1 for tasks with one verifiable reward.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    share: of hard, medium and easy prompts, sums to 1.
    low: the ratio is clipped below 1 - low, in [0, 1].
    high: the ratio is clipped above 1 + high, >= 0.

  Returns:
    A `Recipe`.

  Note:
    The two bounds are derived here. Rewards of an agent's single steps,
    judged rewards, the stages and the late entropy terms are not part of it.
  """
  del sizes
  return Recipe(
    name="tablegpt",
    allocate=allocate.uniform(),
    select=(functools.partial(select.stratified, share=share),),
    trust=(functools.partial(trust.clip, low=low, high=high),),
    losses=(
      Loss("policy", objective.gspo, 1.0, objective.aggregate.sequence_mean),
    ),
  )
