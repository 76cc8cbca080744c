"""PODS: many rollouts, trained on where their rewards vary most.

Xu et al. 2025, arXiv:2504.13818.
"""

import functools

from jaxroll import allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def pods(sizes: Sizes, *, n: int | None = None) -> Recipe:
  """The recipe of PODS; its baseline is that of the kept rows.

  Args:
    sizes: the run's.
    n: rows kept of a group, see `keep.max_variance`; None keeps a quarter of
      equal groups, and 2 at least: the paper's 16 of 64.

  Returns:
    A `Recipe`.
  """
  n = max(2, sizes.rows // sizes.prompts // 4) if n is None else n
  return Recipe(
    name="pods",
    allocate=allocate.uniform(),
    keep=(functools.partial(keep.max_variance, n=n),),
  )
