"""V0.5: a baseline shrunk to a prediction, and rollouts where that was wrong.

arXiv:2603.10848.
"""

from jaxroll import advantage, allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def v05(
  sizes: Sizes,
  *,
  k_init: int = 4,
  k_max: int = 16,
  c: float = 0.0039,
  stride: int = 4,
) -> Recipe:
  """The recipe of V0.5, with the prompts' posteriors as predictions.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    k_init, k_max, c, stride: see `allocate.v05`.

  Returns:
    A `Recipe`.

  Note:
    The paper's stride is 1. Strides of 4 plan up to 4 rollouts by the same
    rule before they are looked at: 3 further rounds and not 12.
  """
  del sizes
  plan = allocate.v05(k_init=k_init, k_max=k_max, c=c, stride=stride)
  return Recipe(name="v05", allocate=plan, advantage=(advantage.shrinkage,))
