"""CBS: a bandit chooses which half of each group is trained on.

arXiv:2602.08499.
"""

from jaxroll import allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def cbs(
  sizes: Sizes, *, k: int | None = None, entropy_weight: float = 1.0
) -> Recipe:
  """The recipe of contextual rollout bandits, within groups.

  Args:
    sizes: the run's.
    k: rows kept of a group, see `keep.cbs`; None keeps half of equal groups,
      and 2 at least.
    entropy_weight: see `keep.cbs`.

  Returns:
    A `Recipe`.
  """
  k = max(2, sizes.rows // sizes.prompts // 2) if k is None else k
  return Recipe(
    name="cbs",
    allocate=allocate.uniform(),
    keep_loss=(keep.cbs(k=k, entropy_weight=entropy_weight),),
  )
