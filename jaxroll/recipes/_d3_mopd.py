"""D3-MOPD: the mixture moves to sources far from done that still improve.

D3-MOPD, 2026, arXiv:2608.24987.
"""

from jaxroll import allocate, mixture
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def d3_mopd(
  sizes: Sizes,
  *,
  every: int = 10,
  window: int = 10,
  temperature: float = 0.5,
  floor: float = 0.1,
  jitter: float = 0.3,
) -> Recipe:
  """The recipe of D3-MOPD's mixture, with rewards in place of teachers.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    every: steps between two mixtures, >= 1.
    window: steps of a moving average, >= 1.
    temperature: of the softmax, > 0.
    floor: least weight of a source before jitter, at most 1 / K.
    jitter: relative noise of each step's weights, in [0, 1].

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a number is out of range.

  Note:
    The paper distils from a teacher a source; here the curve of a source is 1
    - its mean reward.
  """
  del sizes
  return Recipe(
    name="d3_mopd",
    allocate=allocate.uniform(),
    mixture=mixture.d3_mopd(
      every=every,
      window=window,
      temperature=temperature,
      floor=floor,
      jitter=jitter,
    ),
  )
