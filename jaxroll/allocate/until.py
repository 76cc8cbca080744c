"""When has a prompt been rolled out often enough?

A function `tally -> bool[P]`, True for the prompts that are done. A success is
a reward of 1; rewards between 0 and 1 add up to fractional successes.
"""

import jax

from jaxroll.types import Tally


def solved(tally: Tally) -> jax.Array:
  """At least one success.

  Args:
    tally: Tally[P] of the step so far.

  Returns:
    bool[P]; False without a scored row.

  Example:
    >>> from jaxroll import posterior
    >>> solved(posterior.tally_init(2)).tolist()
    [False, False]
  """
  return tally.success > 0


def mixed(tally: Tally) -> jax.Array:
  """Rewards that are not all equal: the group has a gradient.

  Args:
    tally: Tally[P] of the step so far.

  Returns:
    bool[P]; False with less than two scored rows.

  Example:
    >>> from jaxroll import posterior
    >>> mixed(posterior.tally_init(2)).tolist()
    [False, False]
  """
  # Exactly 0 for a tie, see `numerics.merge_moments`.
  return tally.m2 > 0


def balanced(tally: Tally, *, group: int = 8) -> jax.Array:
  """Enough successes and failures for a group with half of each.

    successes >= floor(group / 2) and failures >= group - floor(group / 2)

  Args:
    tally: Tally[P] of the step so far.
    group: rows of the group, >= 2.

  Returns:
    bool[P].

  Raises:
    ValueError: where group < 2, which cannot hold both.

  Example:
    >>> from jaxroll import posterior
    >>> balanced(posterior.tally_init(2)).tolist()
    [False, False]
  """
  if group < 2:
    raise ValueError(f"balanced: group={group} must be >= 2")
  failures = tally.count.astype(tally.success.dtype) - tally.success
  right = group // 2
  return (tally.success >= right) & (failures >= group - right)
