"""Successive elimination: a prompt is sampled until its group is mixed.

Only the allocation differs from the baseline. Reinforce-Ada: Xiong et al.
2025, arXiv:2510.04996.
"""

from collections.abc import Callable

from jaxroll import allocate
from jaxroll.recipe import Recipe
from jaxroll.recipes._budget import rows_a_prompt
from jaxroll.types import Sizes


def elimination(
  sizes: Sizes,
  *,
  chunk: int | None = None,
  rounds: int = 4,
  done: Callable = allocate.until.mixed,
) -> Recipe:
  """The baseline with successive elimination.

  Args:
    sizes: the run's.
    chunk: rollouts of a round; None takes 8, or what the budget has for each
      prompt and round if that is less.
    rounds: most rounds.
    done: when a prompt leaves, of `allocate.until`.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where the budget is below a row for each prompt and round.

  Note:
    The paper then forms groups of a fixed size with half of each sign, as
    `recipes.bar` does, and centres by the mean of all rows drawn.
  """
  rows = rows_a_prompt("elimination", sizes, least=rounds)
  chunk = min(8, rows // rounds) if chunk is None else chunk
  return Recipe(
    name="elimination",
    allocate=allocate.elimination(chunk=chunk, rounds=rounds, done=done),
  )
