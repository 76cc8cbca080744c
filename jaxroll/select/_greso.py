"""Which prompts can be skipped because their last groups had no gradient?

  P(skip i) = 1 - e^z_i

z_i counts the prompt's last groups in a row whose rewards were all equal, and
e is a base probability of exploring, one for prompts whose last group was all
right and one for all wrong. After each step e falls by `change` where the
share of such groups in the step reached its target, and rises where not.

Zheng et al. 2025, "Act only when it pays" (GRESO), arXiv:2506.02177.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.select import _groups
from jaxroll.select._race import race
from jaxroll.select._top import top
from jaxroll.types import Method


class Streaks(NamedTuple):
  """What GRESO remembers.

  Attributes:
    ties: i32[N], last groups in a row without variance.
    hard: bool[N], whether the last one was all wrong.
    explore: f32[2], base probability of prompts too easy, too hard.
  """

  ties: jax.Array
  hard: jax.Array
  explore: jax.Array


def greso(
  *,
  explore: float = 0.5,
  change: float = 0.01,
  easy: float = 1 / 12,
  hard: float = 1 / 6,
  least: float = 0.05,
) -> Method:
  """Probabilistic skipping of prompts whose groups had no variance.

  Args:
    explore: base probability at the start, in [least, 1].
    change: added to or taken from it at every step, in [0, 1].
    easy, hard: targets for the share of a step's groups that are all right,
      all wrong, in [0, 1].
    least: lower bound of the base probability, in (0, 1].

  Returns:
    types.Method with state `Streaks`.

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> greso(explore=0.3).apply.__name__
    'apply'

  Note:
    Prompts are tried in random order, again and again until `num` have passed
    the filter; a full batch of unequal groups is not waited for. The bounds
    of the base probability are derived here, as is the boundary of a tie at
    a fractional reward: up to 1/2 it counts as wrong.

  Reference:
    Zheng et al. 2025, arXiv:2506.02177.
  """
  _groups.check_share("least", least, 1e-6)
  _groups.check_share("explore", explore, least)
  for name, x in (("change", change), ("easy", easy), ("hard", hard)):
    _groups.check_share(name, x)

  def init(sizes, *, key):
    del key
    return Streaks(
      jnp.zeros((sizes.num_ids,), jnp.int32),
      jnp.zeros((sizes.num_ids,), bool),
      jnp.full((2,), explore, jnp.float32),
    )

  def apply(state, stats, pool, *, num, blocked=None, quota=None, key):
    del stats
    score = race(pass_chance(state), key)
    return top(score, pool, num, blocked, quota), state

  def update(state, ids, group, status, reward):
    seen = _groups.seen(state.ties.shape[0], ids, group, status, reward)
    wrong = seen.mean <= 0.5
    ties = jnp.where(seen.tied, state.ties + 1, 0)
    shares = numerics.safe_divide(
      jnp.stack([jnp.sum(seen.tied & ~wrong), jnp.sum(seen.tied & wrong)]),
      jnp.sum(seen.rolled),
    )
    reached = shares >= jnp.array([easy, hard], jnp.float32)
    moved = state.explore + jnp.where(reached, -change, change)
    some = jnp.any(seen.rolled)
    return Streaks(
      jnp.where(seen.rolled, ties, state.ties),
      jnp.where(seen.rolled, wrong, state.hard),
      jnp.where(some, jnp.clip(moved, least, 1.0), state.explore),
    )

  return Method(init, apply, update)


def pass_chance(state: Streaks) -> jax.Array:
  """Probability that a prompt passes the filter: e^z.

  Args:
    state: `Streaks`.

  Returns:
    f32[N] in [0, 1], 1 where the last group had variance.

  Example:
    >>> state = Streaks(jnp.array([0, 2]), jnp.array([False, True]),
    ...                 jnp.array([0.9, 0.5]))
    >>> pass_chance(state).tolist()
    [1.0, 0.25]
  """
  base = jnp.where(state.hard, state.explore[1], state.explore[0])
  return base ** state.ties.astype(jnp.float32)
