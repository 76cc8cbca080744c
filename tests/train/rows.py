"""Rows that nobody sampled, a bigram model, and the loss written out."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import types

B, P, S, T, V = 32, 8, 5, 6, 24


def contexts(seed=0):
  rng = np.random.default_rng(seed)
  return types.Contexts(
    tokens=jnp.asarray(rng.integers(0, V, (P, S)), jnp.int32),
    length=jnp.asarray(rng.integers(1, S + 1, P), jnp.int32),
  )


def columns(seed=0):
  """Rows of uneven groups and lengths; some have no trained token."""
  rng = np.random.default_rng(seed)
  group = np.sort(rng.integers(0, P, B))
  length = rng.integers(1, T + 1, B)
  mask = np.arange(T)[None, :] < length[:, None]
  mask[rng.random(B) < 0.3] = False
  whole = lambda x: jnp.asarray(x, jnp.int32)  # noqa: E731
  return {
    "group": whole(group),
    "context": whole(group),
    "length": whole(length),
    "round": whole(np.zeros(B)),
    "tokens": whole(rng.integers(0, V, (B, T))),
    "mask": jnp.asarray(mask),
    "valid": jnp.ones(B, bool),
    "adv": jnp.asarray(rng.normal(size=B), jnp.float32),
    "behaviour_logp": jnp.asarray(-rng.random((B, T)), jnp.float32),
  }


def bigram() -> types.Policy:
  """The next token depends on the last one alone."""

  def apply(params, tokens, positions, cache=None, column=None):
    del positions, column
    return params["table"][tokens], cache

  def init(key):
    return {"table": jax.random.normal(key, (V, V))}

  return types.Policy(init, apply, lambda _, hidden: hidden, None)


def logps(policy, params, rows, contexts, temperature=1.0):
  """log-probs f32[B, T], logits f32[B, T, V]: a forward pass written plainly.

  Each row stands right behind its context, without a gap, as a single text.
  """
  text = np.zeros((B, S + T), np.int32)
  before = np.asarray(contexts.length)[np.asarray(rows["context"])]
  for row in range(B):
    context = np.asarray(contexts.tokens)[rows["context"][row]]
    text[row, : before[row]] = context[: before[row]]
    text[row, before[row] : before[row] + T] = rows["tokens"][row]
  positions = np.broadcast_to(np.arange(S + T, dtype=np.int32), text.shape)
  hidden, _ = policy.apply(params, jnp.asarray(text), jnp.asarray(positions))
  logits = policy.unembed(params, hidden) / temperature
  at = before[:, None] - 1 + np.arange(T)[None, :]
  logits = jnp.take_along_axis(logits, jnp.asarray(at)[:, :, None], axis=1)
  logp = jax.nn.log_softmax(logits, axis=-1)
  token = rows["tokens"][:, :, None]
  return jnp.take_along_axis(logp, token, axis=-1)[..., 0], logits
