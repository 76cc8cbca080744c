"""What does a policy say of tokens that are already there?

One teacher-forced pass over [context, row]: the row's tokens stand after the
context's padding, with the positions they had when sampled, so that sampler and
trainer compute the same function. Logits are made in chunks of T and recomputed
in the backward pass: [B, T, V] never exists.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxroll import numerics, parallel, types

# Most logits that a device holds at once, in elements.
_CHUNK = 2**23


def token_logps(
  policy: types.Policy,
  params,
  context_tokens,
  context_length,
  tokens,
  length,
  temperature,
  *,
  mesh: jax.sharding.Mesh | None = None,
):
  """Log-probs and entropies of a batch of rows under a policy.

  Args:
    policy: types.Policy.
    params: its parameters.
    context_tokens: i32[B, S], right-padded.
    context_length: i32[B].
    tokens: i32[B, T].
    length: i32[B]; what stands after it is not read.
    temperature: f32[], > 0, divides the logits; 0 counts as 1, so that a
      greedy sampler's rows are scored by the policy's own distribution.
    mesh: over which the batch is spread, so that a device has its part of the
      logits; None for one device.

  Returns:
    logp f32[B, T], entropy f32[B, T] in nats, 0 after `length`; the entropy
    carries no gradient.
  """
  B, S = context_tokens.shape
  T = tokens.shape[1]
  before = jnp.arange(S, dtype=jnp.int32)[None, :]
  after = jnp.arange(T, dtype=jnp.int32)[None, :]
  real = after < length[:, None]
  positions = jnp.concatenate(
    [
      jnp.where(before < context_length[:, None], before, types.EMPTY),
      jnp.where(real, after + context_length[:, None], types.EMPTY),
    ],
    axis=1,
  )
  tokens = jnp.where(real, tokens, 0)
  hidden, _ = policy.apply(
    params, jnp.concatenate([context_tokens, tokens], axis=1), positions
  )
  # Token t is predicted by the token before it: the context's last for t = 0.
  last = jnp.take_along_axis(hidden, context_length[:, None, None] - 1, axis=1)
  hidden = jnp.concatenate([last, hidden[:, S : S + T - 1]], axis=1)
  temperature = jnp.where(temperature > 0, temperature, 1.0)

  def read(piece):
    hidden, tokens = piece
    logits = policy.unembed(params, hidden) / temperature
    entropy = numerics.entropy(jax.lax.stop_gradient(logits))
    return numerics.token_logp(logits, tokens), entropy

  vocab = jax.eval_shape(policy.unembed, params, last).shape[-1]
  # Fewer chunks read the output matrix less often.
  tensor = 1 if mesh is None else mesh.shape.get("tensor", 1)
  chunks = _chunks(B * vocab // (parallel.row_shards(mesh) * tensor), T)
  if chunks == 1:
    logp, entropy = read((hidden, tokens))
  else:
    split = [_split(x, chunks) for x in (hidden, tokens)]
    out = jax.lax.map(jax.checkpoint(read), tuple(split))
    logp, entropy = (x.swapaxes(0, 1).reshape(B, T) for x in out)
  return jnp.where(real, logp, 0.0), jnp.where(real, entropy, 0.0)


def columns(
  policy: types.Policy,
  scorers: Mapping[str, Any],
  rows: types.Rollouts,
  contexts: types.Contexts,
  temperature,
  *,
  micro_rows: int,
  mesh: jax.sharding.Mesh | None = None,
) -> dict[str, jax.Array]:
  """Log-probs of a step's rows under several sets of parameters.

  Args:
    policy: types.Policy.
    scorers: parameters by the name of their column.
    rows: B rows.
    contexts: what the rows were sampled from.
    temperature: f32[].
    micro_rows: rows of one forward pass.
    mesh: rows of a pass lie over its `data` and `fsdp` axes.

  Returns:
    f32[B, T] by name.
  """
  total = rows.length.shape[0]
  split = pieces((rows.context, rows.tokens, rows.length), micro_rows)

  def score(params):
    def some(piece):
      context, tokens, length = parallel.rows(piece, mesh)
      logp, _ = token_logps(
        policy,
        params,
        contexts.tokens[context],
        contexts.length[context],
        tokens,
        length,
        temperature,
        mesh=mesh,
      )
      return logp

    logp = jax.lax.map(some, split)
    return logp.reshape(-1, logp.shape[-1])[:total]

  return {name: score(params) for name, params in scorers.items()}


def pieces(tree, micro_rows: int):
  """Rows in pieces of equal size, for `lax.map`; the last repeats the first.

  Args:
    tree: arrays [B, ...].
    micro_rows: most rows of a piece.

  Returns:
    Arrays [pieces, rows of a piece, ...].
  """
  total = jax.tree.leaves(tree)[0].shape[0]
  size = min(micro_rows, total)
  index = jnp.arange(-(-total // size) * size) % total
  return jax.tree.map(lambda x: x[index].reshape(-1, size, *x.shape[1:]), tree)


def _chunks(elements_per_token: int, T: int) -> int:
  """Fewest equal chunks of T whose logits stay under the bound."""
  for chunks in range(1, T + 1):
    if T % chunks == 0 and elements_per_token * (T // chunks) <= _CHUNK:
      return chunks
  return T


def _split(x, chunks):
  B, T = x.shape[:2]
  return x.reshape(B, chunks, T // chunks, *x.shape[2:]).swapaxes(0, 1)
