"""Can a prompt without a success be rescued by a few more rollouts?

Every prompt gets n_explore rollouts. One with no success among n gets chunks
of n_extra until a chunk holds a success or n = n_total:

  more_i = min(n_extra, n_total - n_i)  if c_i = 0,  else 0

AERO (2026), arXiv:2602.14338.
"""

import jax
import jax.numpy as jnp

from jaxroll.allocate import until
from jaxroll.allocate._stages import chunks, stages
from jaxroll.types import Allocator, Tally


def aero(*, explore: int = 8, total: int = 16, extra: int = 2) -> Allocator:
  """Half the rollouts for all, the other half chunk by chunk for the unsolved.

  Args:
    explore: rollouts of every prompt, >= 1.
    total: most rollouts of a prompt, >= explore; the fixed group size that is
      compared with.
    extra: rollouts of a rescue chunk, >= 1.

  Returns:
    An `Allocator` of 1 + ceil((total - explore) / extra) rounds, fewer where
    the budget ends before.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover the first pass.

  Example:
    >>> aero(explore=4, total=8).rounds(32, 4)
    (16, 8, 8)

  Note:
    Whether the rescue stops by rollout or by chunk is derived here, as the
    source does not state it: by chunk, since a round is generated at once.
    A fractional reward counts as a success.

  Reference:
    AERO, 2026, arXiv:2602.14338.
  """
  if not 1 <= explore <= total:
    raise ValueError(
      f"aero: explore={explore}, total={total} must have 1 <= explore <= total"
    )
  if extra < 1:
    raise ValueError(f"aero: extra={extra} must be >= 1")

  def want(tally: Tally, given: jax.Array) -> jax.Array:
    solved = until.solved(tally)
    return rescue_more(solved, given, extra=extra, total=total)

  return stages("aero", chunks(explore, extra, total), want)


def rescue_more(
  solved: jax.Array, given: jax.Array, *, extra: int, total: int
) -> jax.Array:
  """The next chunk of the prompts without a success.

  Args:
    solved: bool[P], there was a success.
    given: i32[P], rollouts so far.
    extra: rollouts of a chunk.
    total: most rollouts of a prompt.

  Returns:
    i32[P] in [0, extra].

  Example:
    >>> rescue_more(jnp.array([True, False, False]), jnp.array([8, 8, 15]),
    ...             extra=2, total=16).tolist()
    [0, 2, 1]
  """
  return jnp.where(solved, 0, jnp.clip(total - given, 0, extra))
