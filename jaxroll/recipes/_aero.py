"""AERO: rescue what has no success, reject surplus failures, keep flat groups.

Half of the rows are drawn for all prompts, the others by chunks for those
without a success; a group of few successes trains on as many wrong rows; and
tied groups have a posterior mean as baseline, and few of their rows trained.
arXiv:2602.14338.
"""

import functools

from jaxroll import advantage, allocate, keep
from jaxroll.recipe import Recipe
from jaxroll.recipes._budget import rows_a_prompt
from jaxroll.types import Sizes


def aero(
  sizes: Sizes,
  *,
  total: int | None = None,
  extra: int = 2,
  k: float = 1.0,
  threshold: float = 0.5,
  prior: tuple[float, float] = (1.0, 1.0),
  n_post: int = 4,
) -> Recipe:
  """The recipe of AERO.

  Args:
    sizes: the run's.
    total: most rollouts of a prompt, half of which explore; None takes the
      paper's 16, or what the budget has for each prompt if that is less.
    extra: rollouts of a rescue chunk.
    k, threshold: see `keep.aero`.
    prior: see `advantage.posterior_baseline`.
    n_post: trained rows of a tied group, see `keep.thin_flat`.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where the budget is below 4 rows a prompt.
  """
  rows = rows_a_prompt("aero", sizes, least=4)
  total = min(16, rows) if total is None else total
  return Recipe(
    name="aero",
    allocate=allocate.aero(explore=total // 2, total=total, extra=extra),
    keep=(functools.partial(keep.aero, k=k, threshold=threshold),),
    advantage=(functools.partial(advantage.posterior_baseline, prior=prior),),
    keep_loss=(functools.partial(keep.thin_flat, n=n_post),),
  )
