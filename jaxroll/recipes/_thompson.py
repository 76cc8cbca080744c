"""Thompson sampling: rollouts where drawn solve rates promise mixed groups.

Only the allocation differs from the baseline. Thompson 1933,
doi:10.1093/biomet/25.3-4.285.
"""

from jaxroll import allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def thompson(sizes: Sizes, *, floor: int = 2, cap: int | None = None) -> Recipe:
  """The recipe of Thompson allocation.

  Args:
    sizes: the run's: P prompts share `sizes.rows` rollouts a step.
    floor: see `allocate.thompson`; 2 lets each group be mixed.
    cap: most rollouts of a prompt; None takes four mean groups.

  Returns:
    A `Recipe`.
  """
  if cap is None:
    cap = max(floor + 1, 4 * (sizes.rows // sizes.prompts))
  return Recipe(
    name="thompson", allocate=allocate.thompson(floor=floor, cap=cap)
  )
