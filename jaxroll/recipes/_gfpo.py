"""GFPO: many rollouts, trained on where they are short.

Shrivastava et al. 2025, arXiv:2508.09726.
"""

import functools
from collections.abc import Callable

from jaxroll import allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def gfpo(
  sizes: Sizes, *, by: Callable = keep.shortest, k: int | None = None
) -> Recipe:
  """The recipe of GFPO; its baseline is that of the kept rows.

  Args:
    sizes: the run's.
    by: `keep.shortest`, or `keep.efficient` for reward by token.
    k: rows kept of a group; None keeps a third of equal groups, and 2 at
      least: the paper's 8 of 24.

  Returns:
    A `Recipe`.
  """
  k = max(2, sizes.rows // sizes.prompts // 3) if k is None else k
  return Recipe(
    name="gfpo",
    allocate=allocate.uniform(),
    keep=(functools.partial(by, k=k),),
  )
