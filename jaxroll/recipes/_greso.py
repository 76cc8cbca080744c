"""GRESO: skip prompts whose last groups had no variance, then drop the rest.

Zheng et al. 2025, arXiv:2506.02177.
"""

from jaxroll import allocate, keep, select
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def greso(
  sizes: Sizes,
  *,
  explore: float = 0.5,
  change: float = 0.01,
  easy: float = 1 / 12,
  hard: float = 1 / 6,
) -> Recipe:
  """The recipe of GRESO: its filter before rollouts and DAPO's after them.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    explore: base probability at the start, in [0.05, 1].
    change: of the base probability at every step, in [0, 1].
    easy: target share of groups that are all right, in [0, 1].
    hard: target share of groups that are all wrong, in [0, 1].

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a number is out of range.

  Note:
    The paper goes on until its batch is full of unequal groups; here a step
    has a fixed budget of rollouts.
  """
  del sizes
  return Recipe(
    name="greso",
    allocate=allocate.uniform(),
    select=(
      select.greso(explore=explore, change=change, easy=easy, hard=hard),
    ),
    keep=(keep.mixed,),
  )
