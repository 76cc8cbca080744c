"""XRPO: rollouts to the widest intervals, more advantage for unlikely answers.

arXiv:2510.06672.
"""

import functools

from jaxroll import advantage, allocate
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def xrpo(
  sizes: Sizes,
  *,
  n0: int = 4,
  phases: int = 2,
  lam: float = 0.1,
  conf: float = 0.95,
  novelty: float = 1.0,
  kap: float = 0.5,
) -> Recipe:
  """The recipe of XRPO, without its in-context seeding.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    n0, phases, lam, conf: see `allocate.xrpo`.
    novelty, kap: lam and kap of `advantage.sharpen`.

  Returns:
    A `Recipe`.
  """
  del sizes
  return Recipe(
    name="xrpo",
    allocate=allocate.xrpo(n0=n0, phases=phases, lam=lam, conf=conf),
    advantage=(
      advantage.grpo,
      functools.partial(advantage.sharpen, lam=novelty, kap=kap),
    ),
  )
