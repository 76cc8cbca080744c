"""Shared prefixes on a TPU: one kernel of the prefixes, one of rows' columns.

The second goes on from the softmax of the first. A block that nobody needs
names one that is in fast memory already: it isn't moved, and is skipped.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from jaxroll import types
from jaxroll.kernels import online
from jaxroll.kernels.choice import round_up

# Most prefix columns of a block, most scores, most bytes of own keys.
_PREFIX_COLUMNS = 2048
_PREFIX_SCORES = 2**18
_OWN_BYTES = 2**18


# --- the prefixes: grid (kv head, tile, prefix block)


def _prefix_kernel(group, used, length, q, keys, values, *refs):
  out, log_norm, *state = refs
  tile, block = pl.program_id(1), pl.program_id(2)
  columns = keys.shape[2]
  prefix = length[group[tile]]

  @pl.when(block == 0)
  def _():
    for ref, value in zip(state, online.no_columns(q.shape[2:3], q.shape[3])):
      ref[...] = value

  @pl.when((tile < used[0]) & (block * columns < prefix))
  def _():
    first = block * columns
    across = lax.broadcasted_iota(jnp.int32, (1, columns), 1)
    down = lax.broadcasted_iota(jnp.int32, (columns, 1), 0)
    scores = online.scores(
      q[0, 0], keys[0, 0], first + across < prefix, batch=0
    )
    # What lies behind the array's end is anything, also NaN.
    v = values[0, 0]
    v = jnp.where(first + down < prefix, v, jnp.zeros_like(v))
    folded = online.add_columns(
      tuple(ref[...] for ref in state), scores, v, batch=0
    )
    for ref, value in zip(state, folded):
      ref[...] = value

  @pl.when(block == pl.num_programs(2) - 1)
  def _():
    out[0, 0], log_norm[0, 0] = online.close(tuple(ref[...] for ref in state))


def over_prefix(tiled, keys, values, length, tiles, interpret):
  """Tiles of queries over their prefixes.

  Args:
    tiled: [tiles, K, Q, h].
    keys, values: [P, K, S, h].
    length: i32[P].
    tiles: `group` i32[tiles] and `used` i32[].
    interpret: whether Pallas' interpreter runs it.

  Returns:
    f32[tiles, K, Q, h] and log-normalisers f32[tiles, K, Q, 1].
  """
  num_tiles, K, queries, h = tiled.shape
  S = keys.shape[2]
  columns = max(128, min(_PREFIX_COLUMNS, _PREFIX_SCORES // queries))
  columns = S if S <= columns else columns // 128 * 128

  def by_tile(head, tile, block, *_):
    return tile, head, 0, 0

  def by_group(head, tile, block, group, used, length):
    # Blocks behind the prefix name its last one, which isn't moved again.
    last = jnp.maximum((length[group[tile]] - 1) // columns, 0)
    return group[tile], head, jnp.minimum(block, last), 0

  prefix = pl.BlockSpec((1, 1, columns, h), by_group)
  return pl.pallas_call(
    _prefix_kernel,
    grid_spec=pltpu.PrefetchScalarGridSpec(
      num_scalar_prefetch=3,
      grid=(K, num_tiles, pl.cdiv(S, columns)),
      in_specs=[pl.BlockSpec((1, 1, queries, h), by_tile), prefix, prefix],
      out_specs=[
        pl.BlockSpec((1, 1, queries, h), by_tile),
        pl.BlockSpec((1, 1, queries, 1), by_tile),
      ],
      scratch_shapes=_state_scratch((queries,), h),
    ),
    out_shape=[
      jax.ShapeDtypeStruct((num_tiles, K, queries, h), jnp.float32),
      jax.ShapeDtypeStruct((num_tiles, K, queries, 1), jnp.float32),
    ],
    compiler_params=pltpu.CompilerParams(
      dimension_semantics=("parallel", "arbitrary", "arbitrary")
    ),
    # At most: tiles that aren't used cost nothing.
    cost_estimate=pl.CostEstimate(
      flops=4 * tiled.size * S,
      transcendentals=tiled.size // h * S,
      bytes_accessed=_bytes(tiled, tiled, keys, values),
    ),
    interpret=interpret,
    name="prefix_attention",
  )(tiles.group, tiles.used[None], length, tiled, keys, values)


def _bytes(*arrays):
  return sum(x.size * x.dtype.itemsize for x in arrays)


def _state_scratch(queries, h):
  """Scratch for a state of [..., Q] queries."""
  return [pltpu.VMEM((*queries, width), jnp.float32) for width in (1, 1, h)]


# --- a row's own columns: grid (row, block of columns)


def _own_kernel(source, q, out, log_norm, keys, values, positions, *refs, T):
  output, *state = refs
  row, block = pl.program_id(0), pl.program_id(1)
  blocks, columns = pl.num_programs(1), keys.shape[2]

  @pl.when(block == 0)
  def _():
    for ref, value in zip(state, online.resume(out[0], log_norm[0])):
      ref[...] = value

  @pl.when(source[row * blocks + block] == block)
  def _():
    visible = positions[...] != types.EMPTY
    v = values[0]
    if T % columns:
      # What lies behind the array's end is anything, also NaN.
      first = block * columns
      across = lax.broadcasted_iota(jnp.int32, (1, 1, columns), 2)
      down = lax.broadcasted_iota(jnp.int32, (1, columns, 1), 1)
      visible = visible & (first + across < T)
      v = jnp.where(first + down < T, v, jnp.zeros_like(v))
    scores = online.scores(q[0], keys[0], visible, batch=1)
    folded = online.add_columns(
      tuple(ref[...] for ref in state), scores, v, batch=1
    )
    for ref, value in zip(state, folded):
      ref[...] = value

  @pl.when(block == blocks - 1)
  def _():
    output[0] = online.close(tuple(ref[...] for ref in state))[0].astype(
      output.dtype
    )


def over_own(q, out, log_norm, keys, values, positions, interpret):
  """Rows over their own columns, after the prefix's part.

  Args:
    q: [B, K, G, h].
    out, log_norm: f32[B, K, G, h] and f32[B, K, G, 1], the prefix's part.
    keys, values: [B, K, T, h].
    positions: i32[B, T].
    interpret: whether Pallas' interpreter runs it.

  Returns:
    [B, K, G, h] in q's dtype.
  """
  (B, K, G, h), T = q.shape, keys.shape[2]
  column_bytes = K * h * keys.dtype.itemsize
  columns = max(128, _OWN_BYTES // column_bytes // 128 * 128)
  columns = T if T <= columns else columns
  blocks = pl.cdiv(T, columns)
  queries = round_up(G, 16)
  more = ((0, 0), (0, 0), (0, queries - G), (0, 0))
  q, out, log_norm = (jnp.pad(x, more) for x in (q, out, log_norm))

  def by_row(row, block, source):
    return row, 0, 0, 0

  def by_block(row, block, source):
    return row, 0, source[row * blocks + block], 0

  def by_column(row, block, source):
    return row, 0, source[row * blocks + block]

  own = pl.BlockSpec((1, K, columns, h), by_block)
  made = pl.pallas_call(
    functools.partial(_own_kernel, T=T),
    grid_spec=pltpu.PrefetchScalarGridSpec(
      num_scalar_prefetch=1,
      grid=(B, blocks),
      in_specs=[
        pl.BlockSpec((1, K, queries, h), by_row),
        pl.BlockSpec((1, K, queries, h), by_row),
        pl.BlockSpec((1, K, queries, 1), by_row),
        own,
        own,
        pl.BlockSpec((1, 1, columns), by_column),
      ],
      out_specs=pl.BlockSpec((1, K, queries, h), by_row),
      scratch_shapes=_state_scratch((K, queries), h),
    ),
    out_shape=jax.ShapeDtypeStruct((B, K, queries, h), q.dtype),
    compiler_params=pltpu.CompilerParams(
      dimension_semantics=("parallel", "arbitrary")
    ),
    # At most: blocks without a token cost nothing.
    cost_estimate=pl.CostEstimate(
      flops=4 * B * K * G * h * T,
      transcendentals=B * K * G * T,
      bytes_accessed=_bytes(q, q, out, log_norm, keys, values),
    ),
    interpret=interpret,
    name="own_attention",
  )(
    _sources(positions, columns),
    q,
    out,
    log_norm,
    keys,
    values,
    positions[:, None, :],
  )
  return made[:, :, :G]


def _sources(positions, columns: int):
  """Which block a row's block stands for, i32[B * blocks].

  Itself where the row has a token there, else one that is in fast memory
  already or will be needed next, so that nothing is moved for it; block 0
  throughout where the row has no token.
  """
  B, T = positions.shape
  seen = jnp.pad(positions != types.EMPTY, ((0, 0), (0, -T % columns))).reshape(
    B, -1, columns
  )
  seen = jnp.any(seen, axis=2)
  block = jnp.arange(seen.shape[1], dtype=jnp.int32)[None, :]
  last = lax.cummax(jnp.where(seen, block, -1), axis=1)
  first = jnp.argmax(seen, axis=1).astype(jnp.int32)[:, None]
  return jnp.where(last >= 0, last, first).reshape(-1)
