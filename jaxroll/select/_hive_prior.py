r"""Which prompts does the reward history call promising?

  q_i = clip(max(floor, (4 p_i (1 - p_i) + H_i / max H) / 2 * decay^z_i), 0, 1)

and 1 for a prompt that was never visited. p is a moving solve rate, H the mean
entropy of the last responses' tokens, z the last groups in a row whose rewards
were all equal. A prompt is a candidate with probability q. The history goes
stale while the policy moves: `hive_check` looks at the candidates afresh.

HIVE (2026), arXiv:2603.25184.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.select import _groups
from jaxroll.select._race import race
from jaxroll.select._top import top
from jaxroll.types import SCORED, Method


class History(NamedTuple):
  """What HIVE remembers of each prompt, [N].

  Attributes:
    rate: f32, moving solve rate. visits: i32.
    ties: i32, last groups in a row without variance.
    entropy: f32, nats, of the last visit's response tokens.
  """

  rate: jax.Array
  visits: jax.Array
  ties: jax.Array
  entropy: jax.Array


def prior(state: History, *, floor=0.05, decay=0.5):
  """Probability of each prompt to be a candidate.

  Args:
    state: `History`.
    floor: least probability.
    decay: factor of each group in a row without variance.

  Returns:
    f32[N] in [floor, 1].

  Example:
    >>> one = jnp.ones(1, jnp.int32)
    >>> state = History(jnp.array([0.25]), one, one, jnp.array([0.4]))
    >>> prior(state).tolist()
    [0.4375]
  """
  p, most = state.rate, jnp.max(state.entropy)
  entropy = jnp.where(most > 0, numerics.safe_divide(state.entropy, most), 1.0)
  edge = 2 * p * (1 - p) + 0.5 * entropy
  q = edge * decay ** state.ties.astype(jnp.float32)
  return jnp.where(state.visits == 0, 1.0, jnp.clip(q, floor, 1.0))


def hive_prior(
  *,
  candidates: int | None = None,
  floor: float = 0.05,
  decay: float = 0.5,
  rate: float = 0.5,
) -> Method:
  """Candidates by reward history, HIVE's first stage.

  Args:
    candidates: ids to give where another selector follows in the chain, at
      most the pool's size; None gives the step's prompts.
    floor: least probability to be a candidate, in (0, 1].
    decay: factor of each group in a row without variance, in [0, 1].
    rate: weight of the newest group in the moving solve rate, in [0, 1].

  Returns:
    types.Method with state `History`.

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> hive_prior(candidates=24).apply.keywords
    {'num': 24}

  Note:
    The form of q and its numbers are derived here: the source does not state
    them. Prompts are tried again and again until there are candidates enough.

  Reference:
    HIVE, 2026, arXiv:2603.25184.
  """
  if candidates is not None and candidates < 1:
    raise ValueError(f"candidates={candidates} must be >= 1, or None")
  _groups.check_share("floor", floor, 1e-6)
  _groups.check_share("decay", decay)
  _groups.check_share("rate", rate)

  def init(sizes, *, key):
    del key
    zeros = lambda dtype: jnp.zeros((sizes.num_ids,), dtype)  # noqa: E731
    return History(
      zeros(jnp.float32), zeros(jnp.int32), zeros(jnp.int32), zeros(jnp.float32)
    )

  def apply(state, stats, pool, *, num, blocked=None, quota=None, key):
    del stats
    if candidates is not None:
      num = min(num, pool.shape[0])
    score = race(prior(state, floor=floor, decay=decay), key)
    return top(score, pool, num, blocked, quota), state

  def update(state, ids, group, status, reward, entropy, length, given_length):
    size = state.rate.shape[0]
    seen = _groups.seen(size, ids, group, status, reward)
    tokens, total = _response_entropy(entropy, length, given_length)
    rows = (_groups.prompts(ids, group), size, status == SCORED)
    tokens, total = (numerics.group_sum(x, *rows) for x in (tokens, total))
    mixed = (1 - rate) * state.rate + rate * seen.mean
    mean = jnp.where(state.visits == 0, seen.mean, mixed)
    ties = jnp.where(seen.tied, state.ties + 1, 0)
    new = History(
      mean, state.visits + 1, ties, numerics.safe_divide(total, tokens)
    )
    return jax.tree.map(
      lambda x, old: jnp.where(seen.rolled, x, old), new, state
    )

  if candidates is not None:
    apply = functools.partial(apply, num=candidates)
  return Method(init, apply, update)


def _response_entropy(entropy, length, given_length):
  """Sampled tokens of each row, and the sum of their entropies, f32[B]."""
  place = jnp.arange(entropy.shape[1], dtype=jnp.int32)[None, :]
  own = (place >= given_length[:, None]) & (place < length[:, None])
  return (
    jnp.sum(own, axis=1, dtype=jnp.float32),
    numerics.masked_sum(entropy, own, axis=1),
  )
