"""Pilot-Commit: cheap pilots now, large commits for the useful a step later.

arXiv:2605.26606.
"""

from jaxroll import allocate, keep, replay
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def pilot_commit(
  sizes: Sizes,
  *,
  pilot: int = 4,
  commit: int = 12,
  groups: int | None = None,
  low: float = 0.125,
  up: float = 0.25,
  solve: float = 1.0,
  max_age: int = 4,
) -> Recipe:
  """The recipe of Pilot-Commit.

  Args:
    sizes: the run's: P prompts share `sizes.rows` new rollouts a step.
    pilot, commit: rollouts of a new prompt and, later, of a useful one.
    groups: most useful prompts committed in a step; None takes the most that
      the budget allows, (rows - P pilot) / (commit - pilot).
    low, up, solve, max_age: see `replay.pilots`.

  Returns:
    A `Recipe` that trains on completed groups only.

  Raises:
    ValueError: where the budget does not allow one committed group.
  """
  if groups is None:
    spare = sizes.rows - sizes.prompts * pilot
    groups = min(sizes.prompts, spare // max(1, commit - pilot))
    if groups < 1:
      raise ValueError(
        f"pilot_commit: rows={sizes.rows} leave no commit of {commit} beside "
        f"{pilot} pilots for each of {sizes.prompts} prompts: rows must be at "
        f"least {sizes.prompts * pilot + commit - pilot}"
      )
  return Recipe(
    name="pilot_commit",
    allocate=allocate.pilot_commit(groups=groups, pilot=pilot, commit=commit),
    replay=replay.pilots(
      groups=groups,
      pilot=pilot,
      low=low,
      up=up,
      solve=solve,
      max_age=max_age,
    ),
    keep=(keep.committed,),
  )
