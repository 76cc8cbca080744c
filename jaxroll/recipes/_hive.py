"""HIVE: candidates by reward history, checked by the entropy of the prompt.

HIVE, 2026, arXiv:2603.25184.
"""

from jaxroll import allocate, select
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def hive(
  sizes: Sizes,
  *,
  ratio: int = 3,
  floor: float = 0.05,
  decay: float = 0.5,
  rate: float = 0.5,
) -> Recipe:
  """The recipe of HIVE: one forward pass a candidate before any rollout.

  Args:
    sizes: the run's: P prompts a step.
    ratio: candidates for each of a step's prompts, >= 1.
    floor: least probability to be a candidate, in (0, 1].
    decay: factor of each group in a row without variance, in [0, 1].
    rate: weight of the newest group in the moving solve rate.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a number is out of range.

  Note:
    All numbers are derived here: the source does not state them.
  """
  return Recipe(
    name="hive",
    allocate=allocate.uniform(),
    select=(
      select.hive_prior(
        candidates=ratio * sizes.prompts, floor=floor, decay=decay, rate=rate
      ),
      select.hive_check,
    ),
  )
