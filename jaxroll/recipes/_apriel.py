"""Apriel-Reasoner: sources behind their target are drawn more often.

Apriel-Reasoner, 2026, arXiv:2604.02007.
"""

from jaxroll import allocate, mixture
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def apriel(
  sizes: Sizes,
  *,
  weights: tuple | None = None,
  decay: float = 1.0,
) -> Recipe:
  """The recipe of Apriel's sampler of sources, without its length penalty.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    weights: target, one entry a source, or None for equal ones.
    decay: kept of the counts at every step, in [0, 1].

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a number is out of range.
  """
  del sizes
  return Recipe(
    name="apriel",
    allocate=allocate.uniform(),
    mixture=mixture.apriel(weights=weights, decay=decay),
  )
