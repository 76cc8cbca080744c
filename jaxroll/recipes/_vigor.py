"""VIGOR: rounds that double the rollouts of the most undecided prompts.

Only the allocation differs from the baseline: loss, reward and advantage stay.
arXiv:2607.22002.
"""

from jaxroll import allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def vigor(
  sizes: Sizes,
  *,
  m0: int | None = None,
  rounds: int = 4,
  gamma: int = 2,
  alpha: float = 0.5,
) -> Recipe:
  """The recipe of VIGOR.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    m0, rounds, gamma, alpha: see `allocate.vigor`.

  Returns:
    A `Recipe`.
  """
  del sizes
  plan = allocate.vigor(m0=m0, rounds=rounds, gamma=gamma, alpha=alpha)
  return Recipe(name="vigor", allocate=plan)
