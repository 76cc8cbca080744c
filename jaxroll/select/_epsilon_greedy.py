"""What if most places went to the best prompts and a few to any prompt?

Each of the `num` places explores with probability epsilon: it takes a prompt
uniformly at random; the others take the prompts of largest mean pay,
total_i / n_i. A prompt pays 1 where its group's rewards differed; sums are
discounted. Under drift: arXiv:2503.22595.
"""

import jax
import jax.numpy as jnp

from jaxroll import bandit
from jaxroll.select import _bandit, _groups
from jaxroll.select._top import first, shuffled, top
from jaxroll.types import Method


def epsilon_greedy(*, epsilon: float = 0.1, gamma: float = 0.99) -> Method:
  """Epsilon-greedy over prompts.

  Args:
    epsilon: chance of a place to explore, in [0, 1].
    gamma: kept of the old sums at every step, in [0, 1]; 1 forgets nothing.

  Returns:
    types.Method with state `Arms`; ties are taken in random order.

  Raises:
    ValueError: a number out of range.

  Example:
    >>> epsilon_greedy(epsilon=0.2).apply.__name__
    'apply'

  Note:
    The pay (a group of unequal rewards), epsilon and gamma are derived here:
    the source compares the rules on model deployment.

  Reference:
    arXiv:2503.22595.
  """
  _groups.check_share("epsilon", epsilon)

  def apply(state, stats, pool, *, num, blocked=None, quota=None, key):
    del stats
    ties, places, where = jax.random.split(key, 3)
    explored = jnp.sum(
      jax.random.bernoulli(places, epsilon, (num,)), dtype=jnp.int32
    )
    draw = jax.random.uniform(where, state.total.shape, jnp.float32)
    lucky = first(draw, pool, explored, blocked)
    best = shuffled(bandit.means(*state), ties)
    # Above any rank, in random order.
    score = jnp.where(lucky, best.shape[0] + 1.0 - draw, best)
    return top(score, pool, num, blocked, quota), state

  return Method(_bandit.init, apply, _bandit.updater(gamma))
