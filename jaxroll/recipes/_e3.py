"""E3: more rollouts for the prompts that were solved least often so far.

Only the allocation differs from the baseline. Liao et al. 2025,
arXiv:2505.18573.
"""

from jaxroll import allocate
from jaxroll.recipe import Recipe
from jaxroll.recipes._budget import rows_a_prompt
from jaxroll.types import Sizes


def e3(
  sizes: Sizes,
  *,
  low: int | None = None,
  high: int | None = None,
  widen: int | None = None,
) -> Recipe:
  """The rollout budget of E3.

  Args:
    sizes: the run's; n rows for each prompt.
    low, high, widen: see `allocate.e3`; None takes n/2, 3n/2 and n/4, the
      paper's 4, 12 and 2 at n = 8.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where the budget is below 2 rows a prompt.

  Note:
    The paper also steers the sampling temperature by the policy's entropy;
    that is not part of it.
  """
  n = rows_a_prompt("e3", sizes, least=2)
  low = n // 2 if low is None else low
  high = n + n // 2 if high is None else high
  widen = max(1, n // 4) if widen is None else widen
  return Recipe(
    name="e3", allocate=allocate.e3(low=low, high=high, widen=widen)
  )
