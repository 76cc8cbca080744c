r"""What are a token's log-prob and its distribution's entropy, without logits?

With z = h W / temperature, a vocabulary block at a time, these are carried:
the largest logit m, l = sum exp(z - m), s = sum exp(z - m) (z - m) and the
target's logit z_y. When a block raises m to m', a = exp(m - m'),

  l' = a l + sum_block exp(z - m'),
  s' = a (s + (m - m') l) + sum_block exp(z - m') (z - m'),
  logp = (z_y - m) - log l,    entropy = log l - s / l

(the online normaliser of Milakov & Gimelshein 2018, arXiv:1805.02867, with the
entropy's moment beside it, taken about m so that large logits cancel exactly).
The backward pass makes each block again, dz = g (1[v = y] - p) / temperature,
and adds its share to both gradients. [N, V] exists in neither pass.
"""

import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import lax

from jaxroll.kernels import online, token_logp_tpu
from jaxroll.kernels.choice import implementation

# Logits of one block of "xla", in elements, and its narrowest block.
_ELEMENTS = 2**23
_NARROWEST = 1024

_pick_implementation = implementation


class _How(NamedTuple):
  """Static choices."""

  vocab_axis: int
  rows: int  # of a block
  width: int  # vocabulary columns of a block
  pallas: bool
  interpret: bool


def token_logp(
  hidden,
  unembedding,
  targets,
  temperature=1.0,
  *,
  vocab_axis: int = 1,
  width: int | None = None,
  implementation: str | None = None,
  interpret: bool = False,
):
  """log softmax(hidden @ unembedding / temperature)[target], and the entropy.

  Args:
    hidden: [N, D], float32 or bfloat16; products are taken in its dtype and
      summed in float32.
    unembedding: [D, V], or [V, D] with vocab_axis=0; cast to hidden's dtype by
      block ("pallas" makes no copy of it; of "xla" XLA may move the cast out
      of the loop).
    targets: i32[N] in [0, V).
    temperature: f32[], > 0.
    vocab_axis: the axis of V, 0 for a tied embedding.
    width: vocabulary columns of a block, >= 1 for "xla", a multiple of 128 for
      "pallas"; None: what fits. It need not divide V.
    implementation: "xla" or "pallas"; None: `kernels.implementation()`.
    interpret: run "pallas" in Pallas' interpreter, on any backend.

  Returns:
    logp f32[N], entropy f32[N], nats. logp has gradients to hidden,
    unembedding (in its dtype) and temperature; the entropy carries none.

  Raises:
    ValueError: a vocab_axis, width or implementation that is not one.

  Note:
    "xla" makes the logits twice and "pallas" three times (once for each
    gradient), so four and five matrix products of N D V instead of three.

  >>> logp, entropy = token_logp(
  ...   jnp.zeros((2, 3)), jnp.ones((3, 4)), jnp.array([0, 3]))
  >>> bool(jnp.allclose(entropy, -logp)), round(float(entropy[0]), 4)
  (True, 1.3863)
  """
  chex.assert_rank([hidden, unembedding, targets], [2, 2, 1])
  chex.assert_equal_shape_prefix([hidden, targets], 1)
  if vocab_axis not in (0, 1):
    raise ValueError(
      f"vocab_axis={vocab_axis}: 1 for [D, V], 0 for [V, D] (tied embedding)"
    )
  chex.assert_axis_dimension(unembedding, 1 - vocab_axis, hidden.shape[1])
  pallas = _pick_implementation(implementation) == "pallas"
  step = 128 if pallas else 1
  if width is not None and (width < step or width % step):
    raise ValueError(
      f"width={width}: a multiple of {step} and at least that, or None"
    )
  if pallas:
    rows, width = token_logp_tpu.blocks(hidden, unembedding, vocab_axis, width)
  else:
    rows, V = hidden.shape[0], unembedding.shape[vocab_axis]
    width = min(V, width or max(_NARROWEST, _ELEMENTS // max(rows, 1)))
  how = _How(vocab_axis, rows, width, pallas, interpret)
  temperature = jnp.asarray(temperature, jnp.float32)
  chex.assert_rank(temperature, 0)
  logp, entropy = _measure(hidden, unembedding, targets, temperature, how)
  return logp, lax.stop_gradient(entropy)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _measure(hidden, unembedding, targets, temperature, how):
  forward = token_logp_tpu.forward if how.pallas else _xla_forward
  return forward(hidden, unembedding, targets, temperature, how)[:2]


def _measure_fwd(hidden, unembedding, targets, temperature, how):
  forward = token_logp_tpu.forward if how.pallas else _xla_forward
  logp, entropy, top, log_norm = forward(
    hidden, unembedding, targets, temperature, how
  )
  kept = hidden, unembedding, targets, temperature, top, log_norm
  return (logp, entropy), (*kept, logp, entropy)


def _measure_bwd(how, kept, cotangents):
  *kept, logp, entropy = kept
  temperature = kept[3]
  g, _ = cotangents
  backward = token_logp_tpu.backward if how.pallas else _xla_backward
  d_hidden, d_unembedding = backward(*kept, g / temperature, how)
  # d logp / d temperature = -(z_y - sum p z) / temperature.
  d_temperature = -jnp.sum(g * (logp + entropy)) / temperature
  return d_hidden, d_unembedding, None, d_temperature


_measure.defvjp(_measure_fwd, _measure_bwd)


# --- plain JAX: a scan over vocabulary blocks


def _xla_block(hidden, unembedding, temperature, how, i):
  """Block i: its first column, weights, logits and columns, bool[1, C] new."""
  V = unembedding.shape[how.vocab_axis]
  # The last block ends with V and shares columns with the one before it.
  start = jnp.minimum(i * how.width, V - how.width)
  piece = lax.dynamic_slice_in_dim(
    unembedding, start, how.width, how.vocab_axis
  ).astype(hidden.dtype)
  z = online.dot(hidden, piece, (1, 1 - how.vocab_axis)) / temperature
  column = start + jnp.arange(how.width, dtype=jnp.int32)[None, :]
  return start, piece, z, column, column >= i * how.width


def _xla_steps(unembedding, how):
  V = unembedding.shape[how.vocab_axis]
  return jnp.arange(-(-V // how.width), dtype=jnp.int32)


def _xla_forward(hidden, unembedding, targets, temperature, how):
  def step(carry, i):
    _, _, z, column, new = _xla_block(hidden, unembedding, temperature, how, i)
    is_target = new & (column == targets[:, None])
    return online.add_logits(
      carry, jnp.where(new, z, online.LOWEST), is_target
    ), None

  carry = online.no_logits(hidden.shape[0])
  carry, _ = lax.scan(step, carry, _xla_steps(unembedding, how))
  return tuple(x[:, 0] for x in online.measure(carry))


def _xla_backward(
  hidden, unembedding, targets, temperature, top, log_norm, g, how
):
  axis = how.vocab_axis

  def step(carry, i):
    d_hidden, d_unembedding = carry
    start, piece, z, column, new = _xla_block(
      hidden, unembedding, temperature, how, i
    )
    p = jnp.exp(z - top[:, None] - log_norm[:, None])
    hit = (column == targets[:, None]).astype(jnp.float32)
    dz = jnp.where(new, g[:, None] * (hit - p), 0.0).astype(hidden.dtype)
    d_hidden += online.dot(dz, piece, (1, axis))
    # A shared column's second share is 0: adding rounds nothing.
    share = online.outer(hidden, dz, axis).astype(d_unembedding.dtype)
    old = lax.dynamic_slice_in_dim(d_unembedding, start, how.width, axis)
    d_unembedding = lax.dynamic_update_slice_in_dim(
      d_unembedding, old + share, start, axis
    )
    return (d_hidden, d_unembedding), None

  zeros = jnp.zeros(hidden.shape, jnp.float32), jnp.zeros_like(unembedding)
  carry, _ = lax.scan(step, zeros, _xla_steps(unembedding, how))
  return carry[0].astype(hidden.dtype), carry[1]
