"""DART: rollouts by success rate, and weights for the sampler's mismatch.

arXiv:2509.23866.
"""

import functools

from jaxroll import allocate, posterior, trust
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def dart(
  sizes: Sizes,
  *,
  n_max: int | None = None,
  n_min: int = 2,
  threshold: float = 0.6,
  average: float = 0.9,
  low: float = 0.2,
  high: float = 0.28,
  cap: float = 1.0,
) -> Recipe:
  """The recipe of DART's rollout counts and its distribution alignment.

  Args:
    sizes: the run's: P prompts have room for `sizes.rows` rollouts a step.
    n_max: rollouts of a prompt that is not solved; None takes rows / P.
    n_min, threshold: see `allocate.dart`.
    average: kept of a prompt's old counts when it is rolled out, in [0, 1].
    low, high: see `trust.clip`.
    cap: see `trust.token_weight`.

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where n_max is None and a mean group is below n_min.

  Note:
    `average` is derived here: the source tracks a success rate and does not
    state its window. Not here: the caps on length by task, the pool of
    successes, the choice of steps by entropy and the penalty of the KL.
  """
  if n_max is None:
    n_max = sizes.rows // sizes.prompts
    if n_max < n_min:
      raise ValueError(
        f"dart: rows={sizes.rows} give {sizes.prompts} prompts less than "
        f"n_min={n_min} rollouts each: rows must be at least "
        f"{n_min * sizes.prompts}"
      )
  return Recipe(
    name="dart",
    allocate=allocate.dart(n_max=n_max, n_min=n_min, threshold=threshold),
    observe=functools.partial(posterior.observe, local=average),
    trust=(
      functools.partial(trust.clip, low=low, high=high),
      functools.partial(trust.token_weight, cap=cap),
    ),
  )
