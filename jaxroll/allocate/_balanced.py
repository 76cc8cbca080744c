"""How many rollouts until a group can hold as many right as wrong ones?

Chunks of m rollouts; a prompt stops once both signs fill half a group, or at
n_max:

  more_i = min(m, n_max - n_i)
             unless right_i >= G/2 and wrong_i >= G/2,  then 0

Balanced Adaptive Rollout of Orchard (2026), arXiv:2605.15040.
"""

import functools

import jax
import jax.numpy as jnp

from jaxroll.allocate import until
from jaxroll.allocate._stages import chunks, stages
from jaxroll.types import Allocator, Tally


def balanced(*, group: int = 8, chunk: int = 4, most: int = 32) -> Allocator:
  """Chunks of rollouts until a balanced group of each prompt can be formed.

  Args:
    group: G, rows of the group that will be formed, >= 2; an odd one has
      floor(G/2) right rows.
    chunk: m, rollouts of a prompt and round, >= 1.
    most: n_max, rollouts of a prompt in all, >= group.

  Returns:
    An `Allocator` of ceil(most / chunk) rounds, fewer where the budget ends
    before.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover the first round and, where others follow, one row
      more.

  Example:
    >>> balanced(group=4, chunk=2, most=6).rounds(24, 4)
    (8, 8, 8)

  Note:
    Group, chunk, cap and the rule to stop are derived here: the source does
    not state them. Forming the group from the rows is a keep function's work.

  Reference:
    Orchard, 2026, arXiv:2605.15040.
  """
  if not 2 <= group <= most:
    raise ValueError(
      f"balanced: group={group}, most={most} must have 2 <= group <= most"
    )
  if chunk < 1:
    raise ValueError(f"balanced: chunk={chunk} must be >= 1")
  done = functools.partial(until.balanced, group=group)

  def want(tally: Tally, given: jax.Array) -> jax.Array:
    return jnp.where(done(tally), 0, jnp.clip(most - given, 0, chunk))

  return stages("balanced", chunks(min(chunk, most), chunk, most), want)
