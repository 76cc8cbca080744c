"""VADE: prompts chosen by Thompson draws that maximise p (1 - p)^2.

arXiv:2511.18902.
"""

import functools

from jaxroll import allocate, posterior, select
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def vade(sizes: Sizes, *, local: float = 0.5, decay: float = 0.999) -> Recipe:
  """The recipe of VADE: its selector and its two scales of forgetting.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    local: kept of a prompt's old counts when it is rolled out, in [0, 1].
    decay: kept of all counts at every step, in [0, 1].

  Returns:
    A `Recipe`.

  Note:
    Both factors are derived here: the source states two scales, not values.
  """
  del sizes
  return Recipe(
    name="vade",
    allocate=allocate.uniform(),
    select=(select.vade,),
    observe=functools.partial(posterior.observe, local=local, decay=decay),
  )
