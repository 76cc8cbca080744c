"""Prompts as arms of a bandit: mostly the best paying, at times any.

arXiv:2503.22595.
"""

from jaxroll import allocate, select
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def epsilon_greedy(
  sizes: Sizes,
  *,
  epsilon: float = 0.1,
  gamma: float = 0.99,
) -> Recipe:
  """The recipe of epsilon-greedy prompts.

  Args:
    sizes: the run's; not needed here, the signature is every recipe's.
    epsilon: chance of a place to take any prompt, in [0, 1].
    gamma: kept of the old sums at every step, in [0, 1].

  Returns:
    A `Recipe`.

  Raises:
    ValueError: where a number is out of range.
  """
  del sizes
  return Recipe(
    name="epsilon_greedy",
    allocate=allocate.uniform(),
    select=(select.epsilon_greedy(epsilon=epsilon, gamma=gamma),),
  )
