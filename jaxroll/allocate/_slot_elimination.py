"""Which groups still lack an outcome? They get rows, one each in turn.

  decided_p = done_p(tally)
  gain_p    = -h_p,  -inf once decided or h_p = cap

Rounds of elimination (Reinforce-Ada: Xiong et al. 2025, arXiv:2510.04996)
without the rounds: in the decode loop all prompts that are still in get rows
evenly; a prompt leaves as soon as it is done, its rows that still run are
cancelled, and their slots go to the others. What is not needed is not spent.

Note:
  The rule for slots is derived here. The stop depends on the rewards, so the
  mean of a group is biased towards 1/2: where rows come one by one until the
  first mixed outcome, at most 32, it is .207 for p = .1 and .384 for p = .3.
  `allocate.unbiased` has the estimator that is not. Rows are cancelled before
  their outcome is known: where long rows are right more or less often than
  short ones, neither is exact.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from jaxroll.allocate import _slots, until
from jaxroll.types import Allocator, Tally


def slot_elimination(
  *, done: Callable = until.mixed, floor: int = 2, cap: int | None = 32
) -> Allocator:
  """Rows for every prompt until its group is mixed; then its slots are freed.

  Args:
    done: tally -> bool[P], the prompts that are done, of `allocate.until`.
    floor: rows of each prompt in the opening, >= 1.
    cap: most rows of a prompt, >= floor; None for no bound.

  Returns:
    An `Allocator` for `rollout.generate_at_slots` that spends at most the
    budget.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget is below `floor` rows a prompt.

  Example:
    >>> slot_elimination(floor=2, cap=8).rounds(24, 8)
    (24,)

  Reference:
    Xiong et al., 2025, arXiv:2510.04996; at the slot: derived here.
  """
  rounds, opening = _slots.opening("slot_elimination", floor, cap)

  def gain(tally: Tally, counts: jax.Array) -> jax.Array:
    chex.assert_equal_shape([tally.count, counts])
    return _slots.capped(-counts.astype(jnp.float32), counts, cap)

  def decided(tally: Tally) -> jax.Array:
    return done(tally)

  return Allocator(rounds=rounds, counts=opening, gain=gain, decided=decided)
