"""What does a policy say of tokens that are already there?

One teacher-forced pass over [context, row]: the row's tokens stand after the
context's padding, with the positions they had when sampled, so that sampler and
trainer compute the same function. Logits are made in chunks of T and recomputed
in the backward pass: [B, T, V] never exists.

Where many rows share a context it is read once, and the rows go on from its
`Prefix`: the same numbers, from P S + B T tokens instead of B (S + T). Of the
rows' columns only those are computed that the longest row of a pass reaches, up
to the next of a few static widths.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroll import numerics, parallel, types

# Most logits that a device holds at once, in elements.
_CHUNK = 2**23
# Sharing is worth a second kind of pass below this part of the tokens.
_SHARED = 0.75


class Prefix(NamedTuple):
  """Contexts as a policy holds them; rows go on from there.

  Attributes:
    memory: of `Policy.prefill`, pytree [L, P, ...].
    last: f[1, P, D], hidden of each context's last token.
  """

  memory: Any
  last: jax.Array


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
  real = _reaches(length, T)
  positions = jnp.concatenate(
    [
      _positions(context_length, S),
      jnp.where(real, _after(context_length, T), types.EMPTY),
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
  return _read(policy, params, hidden, tokens, real, temperature, mesh)


def logps(
  policy: types.Policy,
  params,
  prefix: Prefix | None,
  contexts: types.Contexts,
  rows,
  temperature,
  *,
  width: int,
  mesh: jax.sharding.Mesh | None = None,
):
  """The same of rows that name their context, over their first columns only.

  Args:
    policy: types.Policy.
    params: its parameters.
    prefix: of each row's context, `take`n; None reads the contexts again.
    contexts: P of them.
    rows: context i32[B], tokens i32[B, T], length i32[B] of at most `width`.
    temperature: f32[].
    width: columns that are computed; the others are 0.
    mesh: as for `token_logps`; None with a prefix.

  Returns:
    logp f32[B, T], entropy f32[B, T].
  """
  context, tokens, length = rows
  rest, tokens = tokens.shape[1] - width, tokens[:, :width]
  before = contexts.length[context]
  if prefix is None:
    out = token_logps(
      policy,
      params,
      contexts.tokens[context],
      before,
      tokens,
      length,
      temperature,
      mesh=mesh,
    )
  else:
    real = _reaches(length, width)
    tokens = jnp.where(real, tokens, 0)
    hidden = policy.extend(
      params,
      tokens,
      jnp.where(real, _after(before, width), types.EMPTY),
      prefix.memory,
      _positions(before, contexts.tokens.shape[1]),
    )
    last = prefix.last[0][:, None]
    hidden = jnp.concatenate([last, hidden[:, : width - 1]], axis=1)
    out = _read(policy, params, hidden, tokens, real, temperature, mesh)
  return tuple(jnp.pad(x, ((0, 0), (0, rest))) for x in out)


def _reaches(length, T):
  return jnp.arange(T, dtype=jnp.int32)[None, :] < length[:, None]


def _after(context_length, T):
  return context_length[:, None] + jnp.arange(T, dtype=jnp.int32)[None, :]


def _positions(context_length, S):
  """i32[B, S] of right-padded contexts."""
  before = jnp.arange(S, dtype=jnp.int32)[None, :]
  return jnp.where(before < context_length[:, None], before, types.EMPTY)


def _read(policy, params, hidden, tokens, real, temperature, mesh):
  """Log-probs of tokens [B, T] and entropies from what predicts them."""
  B, T = tokens.shape
  temperature = jnp.where(temperature > 0, temperature, 1.0)

  def read(piece):
    hidden, tokens = piece
    logits = policy.unembed(params, hidden) / temperature
    entropy = numerics.entropy(jax.lax.stop_gradient(logits))
    return numerics.token_logp(logits, tokens), entropy

  vocab = jax.eval_shape(policy.unembed, params, hidden).shape[-1]
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


def shares(
  policy: types.Policy,
  contexts: types.Contexts,
  rows: int,
  columns: int,
  mesh: jax.sharding.Mesh | None = None,
) -> bool:
  """Whether a pass over rows reads each context once, not once a row.

  Args:
    policy: types.Policy, which needs `prefill` and `extend`.
    contexts: P of S tokens.
    rows: B of a pass over all. columns: T.
    mesh: contexts are shared on one device only, where this is None.

  Returns:
    Whether P S + B T is at most three quarters of B (S + T); static.
  """
  if mesh is not None or policy.prefill is None or policy.extend is None:
    return False
  P, S = contexts.tokens.shape
  return P * S + rows * columns <= _SHARED * rows * (S + columns)


def prefixes(
  policy: types.Policy, params, contexts: types.Contexts, *, micro_rows: int
) -> Prefix:
  """Reads contexts, `micro_rows` at a time; see `pull_back` for gradients."""
  total = contexts.length.shape[0]
  split = pieces((contexts.tokens, contexts.length), micro_rows)
  made = jax.lax.map(lambda piece: _prefix(policy, params, piece), split)

  def join(x):
    x = jnp.moveaxis(x, 0, 1)
    return x.reshape(x.shape[0], -1, *x.shape[3:])[:, :total]

  return jax.tree.map(join, made)


def take(prefix: Prefix | None, context) -> Prefix | None:
  """The prefix of each row's context i32[B]; None stays None."""
  return jax.tree.map(lambda x: jnp.take(x, context, axis=1), prefix)


def pull_back(
  policy: types.Policy,
  params,
  contexts: types.Contexts,
  cotangent: Prefix,
  grads,
  *,
  micro_rows: int,
):
  """Gradients with what flows through `prefixes` into the parameters.

  The forward pass kept nothing for this: it runs again, `micro_rows` contexts
  at a time, so that memory is that of a micro-batch of contexts.

  Args:
    policy, params, contexts, micro_rows: as for `prefixes`.
    cotangent: of the prefix, in any dtype.
    grads: what the rows gave, as params.

  Returns:
    As grads.
  """
  split = pieces((contexts.tokens, contexts.length), micro_rows)
  number, size = split[1].shape

  def divide(x):
    # Contexts that only fill the last piece are not to count again.
    x = jnp.pad(
      x, [(0, 0), (0, number * size - x.shape[1])] + [(0, 0)] * (x.ndim - 2)
    )
    return jnp.moveaxis(x.reshape(x.shape[0], number, size, *x.shape[2:]), 1, 0)

  def add(grads, piece):
    given, back = piece
    made, pull = jax.vjp(lambda params: _prefix(policy, params, given), params)
    back = jax.tree.map(lambda x, y: x.astype(y.dtype), back, made)
    return jax.tree.map(jnp.add, grads, pull(back)[0]), None

  return jax.lax.scan(add, grads, (split, jax.tree.map(divide, cotangent)))[0]


def _prefix(policy, params, contexts):
  tokens, length = contexts
  positions = _positions(length, tokens.shape[1])
  hidden, memory = policy.prefill(params, tokens, positions)
  last = jnp.take_along_axis(hidden, length[:, None, None] - 1, axis=1)
  return Prefix(memory, last[:, 0][None])


def widths(T: int) -> tuple[int, ...]:
  """Columns that a pass may be cut to, ascending; the last are all of them.

  >>> widths(64), widths(100), widths(6)
  ((16, 32, 64), (16, 32, 56, 100), (6,))
  """
  parts = (-(-T // (8 * part)) * 8 for part in (8, 4, 2))
  return tuple(sorted({T} | {max(16, w) for w in parts if max(16, w) < T}))


def narrowest(sizes: Sequence[int], longest) -> jax.Array:
  """i32[], the place of the first width that is at least `longest`."""
  return jnp.sum(longest > jnp.array(sizes[:-1], jnp.int32), dtype=jnp.int32)


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
  total, T = rows.tokens.shape
  # Ascending: what fills the last piece are rows that are short.
  order = jnp.argsort(rows.length, stable=True)
  sorted_rows = (rows.context, rows.tokens, rows.length)
  split = pieces(jax.tree.map(lambda x: x[order], sorted_rows), micro_rows)
  sizes, shared = widths(T), shares(policy, contexts, total, T, mesh)

  def score(params):
    prefix = None
    if shared:
      prefix = prefixes(policy, params, contexts, micro_rows=micro_rows)

    def some(piece):
      piece = parallel.rows(piece, mesh)
      own = take(prefix, piece[0])

      def of(width):
        return lambda: logps(
          policy,
          params,
          own,
          contexts,
          piece,
          temperature,
          width=width,
          mesh=mesh,
        )

      branch = narrowest(sizes, jnp.max(piece[2]))
      return jax.lax.switch(branch, [of(width) for width in sizes])[0]

    logp = jax.lax.map(some, split).reshape(-1, T)[:total]
    return jnp.zeros_like(logp).at[order].set(logp)

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
