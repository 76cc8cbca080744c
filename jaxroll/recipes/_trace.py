"""TRACE at prompt roots: rollouts where a group most likely gets mixed.

Only the allocation differs from the baseline. arXiv:2606.11119.
"""

from jaxroll import allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def trace(
  sizes: Sizes,
  *,
  n0: int | None = None,
  share: float = 0.5,
  cap: int | None = None,
) -> Recipe:
  """The recipe of TRACE, with prompts as its only anchors.

  Args:
    sizes: the run's: P prompts share `sizes.rows` rollouts a step.
    n0: first rollouts of a prompt; None takes a mean group, rows / P, so that
      `share` is also the share of the prompts that are taken.
    share: of the budget for first rollouts.
    cap: most rollouts added to a prompt; None takes three mean groups.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a mean group has fewer than two rollouts.

  Note:
    All three numbers are derived here: the source does not state them.
  """
  group = sizes.rows // sizes.prompts
  if n0 is None and group < 2:
    raise ValueError(
      f"trace: rows={sizes.rows} give {sizes.prompts} prompts less than 2 "
      f"rollouts each: rows must be at least {2 * sizes.prompts}"
    )
  plan = allocate.trace(
    n0=group if n0 is None else n0,
    share=share,
    cap=max(1, 3 * group) if cap is None else cap,
  )
  return Recipe(name="trace", allocate=plan)
