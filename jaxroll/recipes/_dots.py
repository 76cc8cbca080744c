"""DOTS: train on prompts whose predicted solve rate is near one half.

Sun et al. 2025, arXiv:2506.05316.
"""

import functools

from jaxroll import allocate, posterior, select
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def dots(
  sizes: Sizes,
  *,
  references: int = 256,
  fresh: float = 0.25,
  target: float = 0.5,
  temperature: float = 1e-3,
  projected: bool = True,
) -> Recipe:
  """The recipe of DOTS without its rollout replay.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    references: prompts rolled out last that predict the others, >= 1.
    fresh: share of the places drawn uniformly, in [0, 1].
    target: solve rate wanted, in [0, 1].
    temperature: of the draw, > 0.
    projected: whether projections of the features are learned, too.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a number is out of range.

  Note:
    A reference counts with its last group alone: beliefs forget what was seen
    of a prompt before.
  """
  del sizes
  return Recipe(
    name="dots",
    allocate=allocate.uniform(),
    select=(
      select.dots(
        references=references,
        fresh=fresh,
        target=target,
        temperature=temperature,
        projected=projected,
      ),
    ),
    observe=functools.partial(posterior.observe, local=0.0),
  )
