"""How do problems become arrays, and arrays the prompts of a step?

Every task keeps its problems in one NamedTuple of numpy arrays with leading
axis N, the first two of them `prompt` i32[N, S] and `prompt_length` i32[N].
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import types


class Problems(NamedTuple):
  """Problems with one known answer each.

  Attributes:
    prompt: i32[N, S]. prompt_length: i32[N].
    answer: i32[N, T], the stop token included. answer_length: i32[N].
  """

  prompt: chex.Array
  prompt_length: chex.Array
  answer: chex.Array
  answer_length: chex.Array


def pad(sequences, *, name, width=None):
  """Right-pads token lists with 0; never cuts one.

  Args:
    sequences: N lists of tokens.
    name: the argument that `width` came from, for the error.
    width: length of a padded row; None for the longest list's.

  Returns:
    tokens i32[N, width] and length i32[N], numpy.

  Raises:
    ValueError: if a list is longer than `width`, with the count.

  Example:
    >>> pad([[5, 6], [7]], name="prompt_length")[0].tolist()
    [[5, 6], [7, 0]]
  """
  length = np.array([len(s) for s in sequences], np.int32)
  longest = int(length.max())
  width = longest if width is None else width
  if longest > width:
    raise ValueError(
      f"{name}={width}: {int((length > width).sum())} of {len(length)} "
      f"sequences are longer: raise it to {longest} or drop them (they are "
      "never cut)"
    )
  tokens = np.zeros((len(length), width), np.int32)
  for row, sequence in zip(tokens, sequences):
    row[: len(sequence)] = sequence
  return tokens, length


def split(available: int, train: int, evaluation: int) -> tuple[int, int]:
  """How many of a grade's distinct problems go to each pool.

  As many as asked for where there are enough; otherwise all of them, in the
  proportion asked for, with at least one in every pool that asks for any.

  Example:
    >>> split(1000, 512, 64), split(100, 512, 64)
    ((512, 64), (89, 11))
  """
  for name, count, low in (
    ("per_grade", train, 1),
    ("eval_per_grade", evaluation, 0),
  ):
    if count < low:
      raise ValueError(f"{name}={count} < {low}: ask for at least {low}")
  if available >= train + evaluation:
    return train, evaluation
  if not evaluation:
    return available, 0
  share = available * evaluation // (train + evaluation)
  share = min(max(share, 1), available - 1)
  return available - share, share


def pools(counts):
  """Ids of each pool where every grade lists its training problems first.

  Args:
    counts: (train, evaluation) of each grade, in the order of the ids.

  Returns:
    grade i32[N], train_pool i32[M], eval_pool i32[M'], numpy.

  Example:
    >>> [x.tolist() for x in pools([(2, 1), (1, 1)])]
    [[0, 0, 0, 1, 1], [0, 1, 3], [2, 4]]
  """
  grade = np.repeat(np.arange(len(counts)), [sum(c) for c in counts])
  flags = np.repeat(np.tile([True, False], len(counts)), np.ravel(counts))
  ids = np.arange(len(grade), dtype=np.int32)
  return grade.astype(np.int32), ids[flags], ids[~flags]


def prompts(data, ids):
  """The `Task.prompts` of every task here: gathers rows of its table.

  Args:
    data: NamedTuple of arrays, leading axis N, with prompt and prompt_length.
    ids: i32[P], each in [0, N), or -1 for an empty slot (it gets row 0).

  Returns:
    types.Prompts whose data are the gathered rows, and types.Contexts.
  """
  ids = jnp.asarray(ids, jnp.int32)
  chex.assert_rank(ids, 1)
  row = jnp.maximum(ids, 0)
  chosen = jax.tree.map(
    lambda x: jnp.take(jnp.asarray(x), row, axis=0, mode="clip"), data
  )
  earlier = jnp.tril(ids[:, None] == ids[None, :], k=-1)
  occurrence = jnp.sum(earlier, axis=1, dtype=jnp.int32)
  return (
    types.Prompts(
      id=ids, occurrence=jnp.where(ids >= 0, occurrence, 0), data=chosen
    ),
    types.Contexts(tokens=chosen.prompt, length=chosen.prompt_length),
  )


def solutions(data, ids, key):
  """The `Task.solutions` of a `Problems` table: the one answer it has.

  Args:
    data: Problems.
    ids: i32[P], as in `prompts`.
    key: not used.

  Returns:
    tokens i32[P, T] and length i32[P].
  """
  del key
  chosen = prompts(data, ids)[0].data
  return chosen.answer, chosen.answer_length


def outcome(correct, rollouts) -> types.Outcome:
  """Reward 1 for correct rows; rows that do not exist are aborted.

  Args:
    correct: bool[B], read where the row is valid.
    rollouts: types.Rollouts.

  Returns:
    types.Outcome.
  """
  chex.assert_equal_shape([correct, rollouts.valid])
  return types.Outcome(
    reward=(correct & rollouts.valid).astype(jnp.float32),
    status=jnp.where(
      rollouts.valid, jnp.int32(types.SCORED), jnp.int32(types.ABORTED)
    ),
  )
