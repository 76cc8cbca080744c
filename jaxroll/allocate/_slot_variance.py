"""Whose mean reward becomes most certain by one more rollout?

  gain = p (1 - p) (1/h - 1/(h + 1))

with the solve rate p of the beliefs and this step's tally, and the h rows of
the prompt begun so far. It is the fall of the variance of the prompt's mean;
handed out one by one, rows settle in proportion to the standard deviation
sqrt(p (1 - p)) (Neyman, 1934), which follows p as the tally shows it.

Note:
  Derived here as a rule for slots. Prompts whose first rows agree by chance
  look certain and get fewer: the mean of a group is biased (towards the
  extremes) although no single stop is taken. Beliefs of the Beta posterior
  are not, since whether a row is drawn depends on outcomes seen. No unbiased
  mean is known for this rule: it looks at other prompts too.
"""

import chex
import jax

from jaxroll import apportion
from jaxroll.allocate import _slots, beliefs
from jaxroll.types import Allocator, PromptStats, Tally


def slot_variance(*, floor: int = 2, cap: int | None = None) -> Allocator:
  """A free slot for the prompt whose mean's variance falls most.

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
    >>> slot_variance().rounds(64, 8)
    (64,)

  Reference:
    Derived here; Neyman, 1934, JRSS 97(4).
  """
  rounds, opening = _slots.opening("slot_variance", floor, cap)

  def gain(stats: PromptStats, tally: Tally, counts: jax.Array) -> jax.Array:
    chex.assert_equal_shape([stats.alpha, tally.count, counts])
    p = beliefs.rate(stats, tally)
    return _slots.capped(apportion.variance_gain(p, counts), counts, cap)

  return Allocator(rounds=rounds, counts=opening, gain=gain)
