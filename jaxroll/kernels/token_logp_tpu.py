"""Log-probs on a TPU: three kernels over blocks of rows and of the vocabulary.

One forwards and one for each gradient. The block that a sum belongs to stays
in fast memory while the others pass; logits live there only.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from jaxroll.kernels import online
from jaxroll.kernels.choice import round_up

# What a kernel's blocks may take of a TPU core's VMEM, and what it asks for.
_BLOCK_BYTES = 40 * 2**20
_VMEM_BYTES = 56 * 2**20


def blocks(hidden, unembedding, vocab_axis: int, width: int | None):
  """Rows and vocabulary columns of a block that fit a TPU's fast memory.

  Args:
    hidden: [N, D].
    unembedding: [D, V] or [V, D].
    vocab_axis: the axis of V.
    width: columns if they are given, or None.

  Returns:
    rows, a multiple of 16, and columns, one of 128.

  Raises:
    ValueError: where no rows are few enough.
  """
  (N, D), V = hidden.shape, unembedding.shape[vocab_axis]
  h, w = hidden.dtype.itemsize, unembedding.dtype.itemsize
  rows = min(512, round_up(max(N, 1), 16))
  wide = width or min(512, round_up(V, 128))

  def held(rows, wide):
    # Two buffers of each block that moves, the sum, and three of logits.
    moving = 2 * D * (rows * h + wide * w)
    for_hidden = D * rows * (4 + 2 * h)
    for_unembedding = D * wide * (4 + 2 * w)
    return moving + max(for_hidden, for_unembedding) + 12 * rows * wide

  while held(rows, wide) > _BLOCK_BYTES:
    narrower = wide > 128 and not width
    if rows > 16 and (rows >= wide or not narrower):
      rows = round_up(rows // 2, 16)
    elif narrower:
      wide = round_up(wide // 2, 128)
    else:
      raise ValueError(
        f"D={D}: blocks of {rows} rows and width={wide} take "
        f"{held(rows, wide)} bytes of {_BLOCK_BYTES}: lower width, or "
        "implementation='xla'"
      )
  return rows, wide


# --- grids: rows x vocabulary, for the second gradient vocabulary x rows


def _block(weights, columns, V, how, dtype):
  """A vocabulary block's weights and columns i32[1, C]; 0 from V on."""
  first = columns * how.width
  piece = weights[...].astype(dtype)
  if V % how.width:
    shape = (how.width, 1) if how.vocab_axis == 0 else (1, how.width)
    at = first + lax.broadcasted_iota(jnp.int32, shape, how.vocab_axis)
    piece = jnp.where(at < V, piece, jnp.zeros_like(piece))
  return piece, first + lax.broadcasted_iota(jnp.int32, (1, how.width), 1)


def _forward_kernel(temperature, hidden, weights, targets, *refs, V: int, how):
  outputs, carry = refs[:4], refs[4:]

  @pl.when(pl.program_id(1) == 0)
  def _():
    for ref, value in zip(carry, online.no_logits(how.rows)):
      ref[...] = value

  h = hidden[...]
  piece, column = _block(weights, pl.program_id(1), V, how, h.dtype)
  z = online.dot(h, piece, (1, 1 - how.vocab_axis)) / temperature[0, 0]
  is_target = column == targets[...]
  z = jnp.where(column < V, z, online.LOWEST)
  folded = online.add_logits(tuple(ref[...] for ref in carry), z, is_target)
  for ref, value in zip(carry, folded):
    ref[...] = value

  @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
  def _():
    for ref, value in zip(outputs, online.measure(folded)):
      ref[...] = value


def _dz(
  temperature, hidden, weights, targets, top, log_norm, g, columns, V, how
):
  """A block's weights and the gradient of its logits (times temperature)."""
  h = hidden[...]
  piece, column = _block(weights, columns, V, how, h.dtype)
  z = online.dot(h, piece, (1, 1 - how.vocab_axis)) / temperature[0, 0]
  p = jnp.exp(z - top[...] - log_norm[...])
  hit = (column == targets[...]).astype(jnp.float32)
  dz = jnp.where(column < V, g[...] * (hit - p), 0.0)
  return piece, dz.astype(h.dtype)


def _hidden_kernel(*refs, V: int, how):
  *inputs, output, total = refs

  @pl.when(pl.program_id(1) == 0)
  def _():
    total[...] = jnp.zeros_like(total)

  piece, dz = _dz(*inputs, pl.program_id(1), V, how)
  total[...] += online.dot(dz, piece, (1, how.vocab_axis))

  @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
  def _():
    output[...] = total[...].astype(output.dtype)


def _unembedding_kernel(*refs, V: int, how):
  *inputs, output, total = refs

  @pl.when(pl.program_id(1) == 0)
  def _():
    total[...] = jnp.zeros_like(total)

  _, dz = _dz(*inputs, pl.program_id(0), V, how)
  total[...] += online.outer(inputs[1][...], dz, how.vocab_axis)

  @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
  def _():
    output[...] = total[...].astype(output.dtype)


def _specs(D, how, vectors, rows_first=True):
  """Where a grid step's blocks lie: temperature, hidden, weights, [N, 1]s."""

  def spec(shape, place):
    def index(i, j):
      return place(i, j) if rows_first else place(j, i)

    return pl.BlockSpec(shape, index)

  hidden = spec((how.rows, D), lambda row, column: (row, 0))
  if how.vocab_axis == 0:
    weights = spec((how.width, D), lambda row, column: (column, 0))
  else:
    weights = spec((D, how.width), lambda row, column: (0, column))
  vector = spec((how.rows, 1), lambda row, column: (row, 0))
  scalar = pl.BlockSpec(memory_space=pltpu.SMEM)
  return scalar, hidden, weights, *[vector] * vectors


def _call(kernel, how, hidden, unembedding, *, products, inner, **settings):
  """A kernel over blocks; for the planner, what it costs.

  Args:
    products: matrix products of N D V that it makes.
    inner: what is read again for each block of the other, "hidden" or
      "unembedding".
  """
  (N, D), V = hidden.shape, unembedding.shape[how.vocab_axis]
  moved = {
    "hidden": hidden.size * hidden.dtype.itemsize,
    "unembedding": unembedding.size * unembedding.dtype.itemsize,
  }
  moved[inner] *= settings["grid"][0]
  return pl.pallas_call(
    functools.partial(kernel, V=V, how=how),
    cost_estimate=pl.CostEstimate(
      flops=2 * products * N * D * V,
      transcendentals=N * V,
      bytes_accessed=sum(moved.values()),
    ),
    compiler_params=pltpu.CompilerParams(
      dimension_semantics=("parallel", "arbitrary"),
      vmem_limit_bytes=_VMEM_BYTES,
    ),
    interpret=how.interpret,
    **settings,
  )


def _padded(how, *arrays):
  """Arrays [N, ...] with rows of zeros up to whole blocks; [N] as [N, 1]."""
  rest = -arrays[0].shape[0] % how.rows
  arrays = [x[:, None] if x.ndim == 1 else x for x in arrays]
  return [jnp.pad(x, ((0, rest), (0, 0))) for x in arrays]


def forward(hidden, unembedding, targets, temperature, how):
  """logp, entropy, m and log l, f32[N] each; `how`: `token_logp`'s choices."""
  (N, D), V = hidden.shape, unembedding.shape[how.vocab_axis]
  hidden, targets = _padded(how, hidden, targets)
  rows = hidden.shape[0]
  specs = _specs(D, how, vectors=1)
  out = _call(
    _forward_kernel,
    how,
    hidden,
    unembedding,
    products=1,
    inner="unembedding",
    grid=(rows // how.rows, pl.cdiv(V, how.width)),
    in_specs=specs,
    out_specs=[specs[-1]] * 4,
    out_shape=[jax.ShapeDtypeStruct((rows, 1), jnp.float32)] * 4,
    scratch_shapes=[pltpu.VMEM((how.rows, 1), jnp.float32)] * 4,
    name="token_logp",
  )(temperature[None, None], hidden, unembedding, targets)
  return tuple(x[:N, 0] for x in out)


def backward(hidden, unembedding, targets, temperature, top, log_norm, g, how):
  """Gradients to hidden and unembedding of sum(g * temperature * logp)."""
  (N, D), V = hidden.shape, unembedding.shape[how.vocab_axis]
  # Padding has g = 0: its rows give the unembedding nothing.
  hidden, *vectors = _padded(how, hidden, targets, top, log_norm, g)
  operands = temperature[None, None], hidden, unembedding, *vectors
  rows, columns = hidden.shape[0] // how.rows, pl.cdiv(V, how.width)
  specs = _specs(D, how, vectors=4)
  d_hidden = _call(
    _hidden_kernel,
    how,
    hidden,
    unembedding,
    products=2,
    inner="unembedding",
    grid=(rows, columns),
    in_specs=specs,
    out_specs=specs[1],
    out_shape=jax.ShapeDtypeStruct(hidden.shape, hidden.dtype),
    scratch_shapes=[pltpu.VMEM((how.rows, D), jnp.float32)],
    name="token_logp_d_hidden",
  )(*operands)
  specs = _specs(D, how, vectors=4, rows_first=False)
  weights = specs[2].block_shape
  d_unembedding = _call(
    _unembedding_kernel,
    how,
    hidden,
    unembedding,
    products=2,
    inner="hidden",
    grid=(columns, rows),
    in_specs=specs,
    out_specs=specs[2],
    out_shape=jax.ShapeDtypeStruct(unembedding.shape, unembedding.dtype),
    scratch_shapes=[pltpu.VMEM(weights, jnp.float32)],
    name="token_logp_d_unembedding",
  )(*operands)
  return d_hidden[:N], d_unembedding
