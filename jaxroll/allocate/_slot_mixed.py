"""Whose group becomes mixed most probably by one more rollout?

With the solve rate p of the beliefs and this step's tally, and u rows of the
prompt that have begun and are not scored yet,

  gain = p^u (1 - p)              all scored rows are right
         (1 - p)^u p              all scored rows are wrong
         p^h (1 - p) + (1 - p)^h p   none of its h = u rows is scored yet
         -h                       the group is mixed already

so that a free slot goes where it adds most to the expected number of mixed
groups, and what is left once all are mixed evens the groups out. The greedy
choice is exact for groups that are not looked at while they run (Fox, 1966).

Note:
  Derived here. Sampling that goes on until outcomes differ biases the mean
  reward of a group (see `allocate.unbiased`); beliefs of the Beta posterior
  are not biased by it, since whether a row is drawn depends on outcomes seen.
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll import apportion
from jaxroll.allocate import _slots, beliefs, until
from jaxroll.types import Allocator, PromptStats, Tally


def slot_mixed(*, floor: int = 2, cap: int | None = None) -> Allocator:
  """A free slot for the prompt that gains most probability of a mixed group.

  Args:
    floor: rows of each prompt before gains are looked at, >= 1.
    cap: most rows of a prompt, >= floor; None for no bound.

  Returns:
    An `Allocator` for `rollout.generate_at_slots` that spends the budget, but
    for what `cap` forbids.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget is below `floor` rows a prompt.

  Example:
    >>> slot_mixed(floor=2, cap=8).rounds(64, 4)
    (32,)

  Note:
    Rewards are read as right (above 0) or wrong. p is a plug-in: its own
    uncertainty does not enter. A row whose verifier failed stays unscored and
    counts as running, so that a prompt that cannot be scored gains ever less.

  Reference:
    Derived here; marginal analysis: Fox, 1966, Operations Research 14(2).
  """
  rounds, opening = _slots.opening("slot_mixed", floor, cap)

  def gain(stats: PromptStats, tally: Tally, counts: jax.Array) -> jax.Array:
    chex.assert_equal_shape([stats.alpha, tally.count, counts])
    p = beliefs.rate(stats, tally)
    unscored = jnp.maximum(counts - tally.count, 0)
    other = jnp.where(tally.success > 0, 1 - p, p)
    still_tied = (1 - other) ** unscored.astype(jnp.float32)
    one_more = jnp.where(
      tally.count > 0, still_tied * other, apportion.mixed_gain(p, counts)
    )
    one_more = jnp.where(
      until.mixed(tally), -counts.astype(jnp.float32), one_more
    )
    return _slots.capped(one_more, counts, cap)

  return Allocator(rounds=rounds, counts=opening, gain=gain)
