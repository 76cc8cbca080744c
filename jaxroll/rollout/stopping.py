"""When does a row end? Stop tokens and stop sequences, several of each."""

from collections.abc import Sequence
from typing import NamedTuple

import chex
import jax.numpy as jnp
import numpy as np

# In a stop sequence: any token. In the recent tokens of a row: none yet.
_ANY, _NONE = -1, -2


class Stops(NamedTuple):
  """Stop rules as arrays, so that changing one of the same size is free.

  Attributes:
    tokens: i32[E].
    sequences: i32[Q, W], right-aligned, -1 before a shorter sequence.
  """

  tokens: chex.Array
  sequences: chex.Array


def stops(tokens: Sequence[int], sequences: Sequence[Sequence[int]] = ()):
  """Checked stop rules.

  Args:
    tokens: ids that end a row; the token itself is kept and trained.
    sequences: token sequences that end a row once their last token is
      written; they may begin in given tokens but must end in a sampled one.

  Returns:
    A `Stops`.

  Raises:
    ValueError: for a negative id or an empty sequence.

  >>> stops([2], [(5, 6, 7), (9,)]).sequences.tolist()
  [[5, 6, 7], [-1, -1, 9]]
  """
  if any(t < 0 for t in tokens) or any(t < 0 for s in sequences for t in s):
    raise ValueError(f"stop ids must be >= 0: {tokens}, {sequences}")
  if any(not len(s) for s in sequences):
    raise ValueError(
      f"stop sequences {sequences}: an empty one would end every row"
    )
  width = max((len(s) for s in sequences), default=0)
  table = np.full((len(sequences), width), _ANY, np.int32)
  for row, sequence in zip(table, sequences):
    row[width - len(sequence) :] = sequence
  return Stops(jnp.asarray(tokens, jnp.int32).reshape(-1), jnp.asarray(table))


def nothing_recent(rows: int, rules: Stops):
  """The window of recent tokens of rows that have none: i32[rows, W]."""
  return jnp.full((rows, rules.sequences.shape[1]), _NONE, jnp.int32)


def push(recent, token):
  """The window after one more token."""
  return jnp.concatenate([recent, token[:, None]], axis=1)[:, 1:]


def reached(rules: Stops, token, recent):
  """Whether `token`, already pushed to `recent`, ends its row: bool[R]."""
  single = jnp.any(token[:, None] == rules.tokens[None, :], axis=1)
  if not rules.sequences.size:
    return single
  sequence = rules.sequences[None, :, :]
  match = (recent[:, None, :] == sequence) | (sequence == _ANY)
  return single | jnp.any(jnp.all(match, axis=2), axis=1)
