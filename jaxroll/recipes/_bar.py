"""BAR: rollouts until a group of as many right as wrong ones can be formed.

Orchard's balanced adaptive rollout. arXiv:2605.15040.
"""

import functools

from jaxroll import allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.recipes._budget import rows_a_prompt
from jaxroll.types import Sizes


def bar(
  sizes: Sizes,
  *,
  group: int | None = None,
  chunk: int | None = None,
  most: int | None = None,
) -> Recipe:
  """The recipe of balanced adaptive rollout.

  Args:
    sizes: the run's.
    group: rows of a balanced group; None takes 8, or half of `most` if that
      is less.
    chunk: rollouts of a prompt and round; None takes 4, or a quarter of `most`
      if that is less.
    most: most rollouts of a prompt; None takes 32, or what the budget has for
      each prompt if that is less.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where the budget is below 4 rows a prompt.
  """
  rows = rows_a_prompt("bar", sizes, least=4)
  most = min(32, rows) if most is None else most
  group = min(8, most // 2) if group is None else group
  chunk = min(4, max(1, most // 4)) if chunk is None else chunk
  return Recipe(
    name="bar",
    allocate=allocate.balanced(group=group, chunk=chunk, most=most),
    keep=(functools.partial(keep.balanced, size=group),),
  )
