"""What is known of a task's prompts before any of them is rolled out?"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import numerics, parallel, types
from jaxroll.train import scoring

_DIM = 32  # of the features made here
_BLOCK = 4096  # prompts tokenised at once


def source(task: types.Task) -> np.ndarray:
  """Source of every prompt for mixtures: the task's, or its grades.

  Args:
    task: types.Task.

  Returns:
    i32[N].
  """
  return np.asarray(
    task.grade if task.source is None else task.source, np.int32
  )


def num_features(task: types.Task) -> int:
  """D of `feature`, for `types.Sizes`."""
  return _DIM if task.feature is None else task.feature.shape[1]


def feature(task: types.Task) -> np.ndarray:
  """An embedding of every prompt: the task's, or one made from its tokens.

  The latter is a sum of fixed Gaussian vectors, one a token and, at half its
  size, one a pair of neighbours, less its mean over prompts: prompts that share
  tokens lie close.

  Args:
    task: types.Task.

  Returns:
    f32[N, D], rows of length 1 where they are made here.
  """
  if task.feature is not None:
    return np.asarray(task.feature, np.float32)
  numbers = np.random.default_rng(0)
  single, left, right = numbers.standard_normal(
    (3, task.vocab_size, _DIM), np.float32
  )
  read = jax.jit(lambda ids: task.prompts(task.data, ids)[1])
  blocks = []
  for start in range(0, len(task.grade), _BLOCK):
    ids = np.arange(start, start + _BLOCK, dtype=np.int32)
    contexts = read(np.minimum(ids, len(task.grade) - 1))
    tokens = np.asarray(contexts.tokens)
    real = np.arange(tokens.shape[1]) < np.asarray(contexts.length)[:, None]
    pair = left[tokens[:, :-1]] * right[tokens[:, 1:]]
    total = np.sum(single[tokens] * real[..., None], axis=1)
    blocks.append(total + np.sum(pair * real[:, 1:, None], axis=1) / 2)
  made = np.concatenate(blocks)[: len(task.grade)]
  made = made - made.mean(axis=0)  # what all prompts have tells none apart
  return made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-6)


def entropy(
  policy: types.Policy,
  params,
  contexts: types.Contexts,
  *,
  micro_rows: int,
  mesh: jax.sharding.Mesh | None = None,
) -> jax.Array:
  """Mean entropy of a policy's next-token distributions over a prompt.

  Args:
    policy: types.Policy.
    params: its parameters.
    contexts: M prompts.
    micro_rows: prompts of one forward pass.
    mesh: prompts of a pass lie over its `data` and `fsdp` axes.

  Returns:
    f32[M], nats.
  """
  total, S = contexts.tokens.shape
  split = scoring.pieces((contexts.tokens, contexts.length), micro_rows)
  place = jnp.arange(S, dtype=jnp.int32)[None, :]

  def some(piece):
    tokens, length = parallel.rows(piece, mesh)
    real = place < length[:, None]
    positions = jnp.where(real, place, types.EMPTY)
    hidden, _ = policy.apply(params, tokens, positions)
    each = numerics.entropy(policy.unembed(params, hidden))
    return numerics.masked_mean(each, real, axis=1)

  return jax.lax.map(some, split).reshape(-1)[:total]
