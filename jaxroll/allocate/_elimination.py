"""Which prompts are sampled on, round by round?

All prompts start active. After each round of M rollouts those whose rows hold
enough signal are eliminated; the others get M more, at most T times:

  A_0 = all prompts,  A_t+1 = {i in A_t : not done_i},  n_i = M |{t : i in A_t}|

Reinforce-Ada: Xiong et al. (2025), arXiv:2510.04996.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxroll.allocate import _stages, until
from jaxroll.types import Allocator, Tally


def elimination(
  *, chunk: int = 8, rounds: int = 4, done: Callable = until.mixed
) -> Allocator:
  """Rounds of equal rollouts for the prompts that are not yet done.

  Args:
    chunk: M, rollouts of an active prompt in a round, >= 1.
    rounds: T, most rounds, >= 1.
    done: tally -> bool[P], the prompts that are done, of `allocate.until`:
      `mixed` stops at the first unequal reward, `solved` at the first success,
      `functools.partial(balanced, group=...)` with half a group of each sign.

  Returns:
    An `Allocator` of T rounds, fewer where the budget ends before.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover the first round and, where others follow, one row
      more.

  Example:
    >>> elimination(chunk=2, rounds=3).rounds(24, 4)
    (8, 8, 8)

  Note:
    The paper stops at the first success or with half a group of each sign;
    `mixed` and the number and size of the rounds are derived here. Rows of
    eliminated prompts are saved, not passed on.

  Reference:
    Xiong et al., 2025, arXiv:2510.04996.
  """
  if chunk < 1 or rounds < 1:
    raise ValueError(
      f"elimination: chunk={chunk}, rounds={rounds} must be >= 1"
    )

  def want(tally: Tally, given: jax.Array) -> jax.Array:
    over = done(tally) | (given >= chunk * rounds)
    return jnp.where(over, 0, chunk)

  return _stages.stages("elimination", (chunk,) * rounds, want)
