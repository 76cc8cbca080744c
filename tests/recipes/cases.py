"""One row for each recipe: how it is composed at 8 prompts."""

from collections.abc import Callable
from typing import NamedTuple

from jaxroll import recipes, select
from jaxroll.types import Sizes


class Case(NamedTuple):
  """A recipe.

  Attributes:
    make: (sizes) -> Recipe with defaults.
    rows: the least budget of 8 prompts that it runs on.
    rounds: its plan of that budget.
    select: its last selection.
    carried: rows of earlier steps that a step may hold.
  """

  make: Callable
  rows: int
  rounds: tuple
  select: Callable = select.random
  carried: int = 0

  def sizes(self, rows=None) -> Sizes:
    return Sizes(40, 8, rows or self.rows, 5, 6)


CASES = {
  # 8 prompts x 4 pilots, one of them committed: 12 more instead of 4.
  "pilot_commit": Case(recipes.pilot_commit, 40, (40,), carried=4),
  "uniform": Case(recipes.uniform, 8, (8,)),
  "vade": Case(recipes.vade, 8, (8,), select=select.vade),
  # m0 = 1 in rounds of 8 x 1, 4 x 2, 2 x 4, 1 x 8.
  "vigor": Case(recipes.vigor, 32, (8, 8, 8, 8)),
}
