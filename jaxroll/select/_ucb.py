"""What if prompts were chosen by an upper bound of what they may pay?

  score_i = total_i / n_i + scale sqrt(log(sum n) / n_i),  ids = top num

A prompt pays 1 where its group's rewards differed; sums are discounted.
Auer et al. 2002; under drift: arXiv:2503.22595.
"""

from jaxroll import bandit
from jaxroll.select import _bandit
from jaxroll.select._top import shuffled, top
from jaxroll.types import Method


def ucb(*, scale: float = 2**0.5, gamma: float = 0.99) -> Method:
  """UCB1 over prompts.

  Args:
    scale: width of the exploration bonus, >= 0.
    gamma: kept of the old sums at every step, in [0, 1]; 1 forgets nothing.

  Returns:
    types.Method with state `Arms`; prompts never pulled come first, ties in
    random order.

  Raises:
    ValueError: a number out of range.

  Example:
    >>> ucb(gamma=1.0).apply.__name__
    'apply'

  Note:
    The pay (a group of unequal rewards) and gamma are derived here: the
    source compares the rules on model deployment.

  Reference:
    Auer et al. 2002; arXiv:2503.22595.
  """
  if not scale >= 0:
    raise ValueError(f"scale={scale} must be >= 0: 0 is greedy")

  def apply(state, stats, pool, *, num, blocked=None, quota=None, key):
    del stats
    score = shuffled(bandit.ucb_scores(*state, scale=scale), key)
    return top(score, pool, num, blocked, quota), state

  return Method(_bandit.init, apply, _bandit.updater(gamma))
