"""AR3PO: stages of rollouts until a prompt's first success.

Only the allocation differs from the baseline. arXiv:2509.25808.
"""

from jaxroll import allocate
from jaxroll.recipe import Recipe
from jaxroll.recipes._budget import rows_a_prompt
from jaxroll.types import Sizes


def ar3po(sizes: Sizes, *, k: int | None = None, stages: int = 4) -> Recipe:
  """The adaptive rollout of AR3PO.

  Args:
    sizes: the run's.
    k: rollouts of a stage; None takes 4, or what the budget has for each
      prompt and stage if that is less.
    stages: most stages.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where the budget is below a row for each prompt and stage.

  Note:
    The paper's other half, one stored right answer that joins a group in which
    all stages failed, is not part of it: a step has no rows that join.
  """
  rows = rows_a_prompt("ar3po", sizes, least=stages)
  k = min(4, rows // stages) if k is None else k
  return Recipe(name="ar3po", allocate=allocate.ar3po(k=k, stages=stages))
