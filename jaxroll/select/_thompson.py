"""What if prompts were chosen by draws of what they may pay?

  p_i ~ Beta(1 + total_i, 1 + n_i - total_i),  ids = top num of p_i

A prompt pays 1 where its group's rewards differed; sums are discounted.
Raj & Kalyani 2017, arXiv:1707.09727; under drift: arXiv:2503.22595.
"""

from jaxroll import bandit
from jaxroll.select import _bandit
from jaxroll.select._top import top
from jaxroll.types import Method


def thompson(*, gamma: float = 0.99) -> Method:
  """Discounted Thompson sampling over prompts.

  Args:
    gamma: kept of the old sums at every step, in [0, 1]; 1 forgets nothing.

  Returns:
    types.Method with state `Arms`.

  Raises:
    ValueError: gamma out of range.

  Example:
    >>> thompson(gamma=1.0).apply.__name__
    'apply'

  Note:
    The pay (a group of unequal rewards) and gamma are derived here: the
    source compares the rules on model deployment.

  Reference:
    Raj & Kalyani 2017, arXiv:1707.09727; arXiv:2503.22595.
  """

  def apply(state, stats, pool, *, num, blocked=None, quota=None, key):
    del stats
    score = bandit.thompson_scores(*state, key)
    return top(score, pool, num, blocked, quota), state

  return Method(_bandit.init, apply, _bandit.updater(gamma))
