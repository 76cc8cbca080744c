"""What do the bandit selectors remember? Prompts are arms, groups are pulls.

A pull pays 1 where the group's rewards were not all equal, else 0: the chance
that a group of the prompt has a gradient. Both sums are forgotten at a rate
gamma, since the policy moves.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxroll import bandit
from jaxroll.select import _groups


class Arms(NamedTuple):
  """Sums by prompt.

  Attributes:
    total: f32[N], pulls that paid. pulls: f32[N].
  """

  total: jax.Array
  pulls: jax.Array


def init(sizes, *, key) -> Arms:
  """No pulls yet."""
  del key
  return Arms(*(jnp.zeros((sizes.num_ids,), jnp.float32) for _ in range(2)))


def updater(gamma):
  """The update of `Arms` by a step's groups.

  Args:
    gamma: kept of the old sums, in [0, 1].

  Returns:
    (state, ids, group, status, reward) -> state.

  Raises:
    ValueError: gamma outside [0, 1].
  """
  _groups.check_share("gamma", gamma)

  def update(state, ids, group, status, reward):
    seen = _groups.seen(state.total.shape[0], ids, group, status, reward)
    paid = (seen.rolled & ~seen.tied).astype(jnp.float32)
    pulls = seen.rolled.astype(jnp.float32)
    return Arms(*bandit.discount(*state, paid, pulls, gamma=gamma))

  return update
