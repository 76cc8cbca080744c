"""TSCL: sources whose mean reward moves get more of the step.

Matiisen et al. 2017, arXiv:1707.00183; DataFlex-RL, 2026, arXiv:2609.06107.
"""

from jaxroll import allocate, mixture
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def tscl(
  sizes: Sizes,
  *,
  temperature: float = 0.01,
  floor: float = 0.05,
  window: int = 50,
  every: int = 5,
  warmup: int = 5,
) -> Recipe:
  """The recipe of the mixture by learning progress.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    temperature: of the softmax, > 0.
    floor: least weight of a source, at most 1 / K.
    window: steps that the statistics are of, >= 1.
    every: steps between two mixtures, >= 1.
    warmup: steps with equal weights at the start, >= 0.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a number is out of range.
  """
  del sizes
  return Recipe(
    name="tscl",
    allocate=allocate.uniform(),
    mixture=mixture.tscl(
      temperature=temperature,
      floor=floor,
      window=window,
      every=every,
      warmup=warmup,
    ),
  )
