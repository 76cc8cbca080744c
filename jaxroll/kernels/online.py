r"""How is a softmax taken in pieces that never stand side by side?

The running state keeps the largest score m and the sum l of exp(score - m);
what is summed with these weights is shrunk by exp(m - m') whenever a piece
raises m to m' (Milakov & Gimelshein 2018, arXiv:1805.02867). Plain functions of
arrays in float32, for kernels and plain JAX alike.
"""

import jax.numpy as jnp
from jax import lax

# Below every score, and finite: a difference of two of them is 0, not NaN.
LOWEST = -1e30


# --- over columns: m, l and the weighted values


def add_columns(state, scores, values, batch: int):
  """The state with more columns; scores f32[..., Q, C], LOWEST if unseen.

  Args:
    state: m, l f32[..., Q, 1], total f32[..., Q, h].
    values: [..., C, h].
    batch: leading dimensions.
  """
  m, l, total = state
  top = jnp.maximum(m, jnp.max(scores, axis=-1, keepdims=True))
  # Where nothing was seen yet, top is LOWEST and so is the score.
  weight = jnp.where(scores > LOWEST, jnp.exp(scores - top), 0.0)
  shrink = jnp.exp(m - top)
  over = ((batch + 1,), (batch,)), (tuple(range(batch)),) * 2
  return (
    top,
    shrink * l + jnp.sum(weight, axis=-1, keepdims=True),
    shrink * total
    + lax.dot_general(
      weight.astype(values.dtype),
      values,
      over,
      preferred_element_type=jnp.float32,
    ),
  )


def scores(q, k, visible, batch: int):
  """q k^T / sqrt(h) f32[..., Q, C], LOWEST where a column is not visible."""
  over = ((batch + 1,), (batch + 1,)), (tuple(range(batch)),) * 2
  scores = lax.dot_general(q, k, over, preferred_element_type=jnp.float32)
  return jnp.where(visible, scores * q.shape[-1] ** -0.5, LOWEST)


def resume(out, log_norm):
  """The state of a finished part: as one column of weight 1, or none."""
  return log_norm, (log_norm > LOWEST).astype(jnp.float32), out


def close(state):
  """Output and log-normaliser; 0 and LOWEST where nothing was seen."""
  m, l, total = state
  some = l > 0
  l = jnp.where(some, l, 1.0)
  return total / l, jnp.where(some, m + jnp.log(l), LOWEST)


def no_columns(queries, h):
  """The state before any column; queries: shape of [..., Q]."""
  zero = jnp.zeros((*queries, 1), jnp.float32)
  return zero + LOWEST, zero, jnp.zeros((*queries, h), jnp.float32)


# --- over a vocabulary: m, l, entropy's moment s and the target's logit


def no_logits(N):
  """m, l, s and z_y before the first block, f32[N, 1] each."""
  zero = jnp.zeros((N, 1), jnp.float32)
  return zero + LOWEST, zero, zero, zero


def add_logits(carry, z, is_target):
  """The carry with a block's logits z f32[N, C]; LOWEST where there is none."""
  m, l, s, z_y = carry
  top = jnp.maximum(m, jnp.max(z, axis=1, keepdims=True))
  shrink, weight = jnp.exp(m - top), jnp.exp(z - top)
  s = shrink * (s + (m - top) * l)
  return (
    top,
    shrink * l + jnp.sum(weight, axis=1, keepdims=True),
    s + jnp.sum(weight * (z - top), axis=1, keepdims=True),
    z_y + jnp.sum(jnp.where(is_target, z, 0.0), axis=1, keepdims=True),
  )


def measure(carry):
  """logp, entropy, m and log l, f32[N, 1] each."""
  m, l, s, z_y = carry
  log_norm = jnp.log(l)
  return z_y - m - log_norm, log_norm - s / l, m, log_norm


def dot(a, b, over):
  """a times b, summed in float32 over an axis of each."""
  return lax.dot_general(
    a,
    b,
    (((over[0],), (over[1],)), ((), ())),
    preferred_element_type=jnp.float32,
  )


def outer(hidden, dz, vocab_axis):
  """The unembedding's gradient from a block: hidden^T dz, or its transpose."""
  pair = (dz, hidden) if vocab_axis == 0 else (hidden, dz)
  return dot(*pair, (0, 0))
