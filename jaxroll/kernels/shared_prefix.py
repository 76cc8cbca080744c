r"""How do rows of uneven groups attend to the prompt that their group shares?

A row's attention over its prefix and its own columns is one softmax in two
parts, each with its output o and log-normaliser c:

  o = (e^{c_prefix} o_prefix + e^{c_own} o_own) / (e^{c_prefix} + e^{c_own})

so the part of the prefix can be made for all of a group's queries at once, as
one matrix product that reads its keys and values once (Juravsky et al. 2024,
arXiv:2402.05099; the parts' sum as in Milakov & Gimelshein 2018,
arXiv:1805.02867, and Dao et al. 2022, arXiv:2205.14135).

Uneven groups: rows are dealt to tiles of R rows, a tile's rows are all of one
group, and a prefetched list says which prefix a tile reads. P groups of B rows
fill at most (B + (R - 1) min(P, B)) / R tiles, whatever the counts are; the
rest are skipped. Tiles of a group stand together, so its prefix stays in fast
memory from one to the next (up to 2048 columns; a longer one is read once a
tile). A row's own columns are read by blocks, and only blocks in which it has
a token: a row pays for its age, not for the ring's length.
"""

from typing import NamedTuple

import chex
import jax.numpy as jnp
from jax import lax

from jaxroll import numerics, types
from jaxroll.kernels import online, shared_prefix_tpu
from jaxroll.kernels.choice import implementation, round_up

# Queries of a tile, roughly: one pass of the matrix unit.
_TILE_QUERIES = 128

_pick_implementation = implementation


class _Tiles(NamedTuple):
  """Rows in tiles of one group each."""

  group: chex.Array  # i32[tiles]; the last used tile's behind it
  used: chex.Array  # i32[], the others are skipped
  row: chex.Array  # i32[tiles * R], B where a place is free
  place: chex.Array  # i32[B], its row's; tiles * R for a row without a group


def shared_prefix_attention(
  q,
  prefix_k,
  prefix_v,
  prefix_length,
  own_k,
  own_v,
  own_positions,
  group,
  *,
  implementation: str | None = None,
  interpret: bool = False,
):
  """One query a row over its group's prefix and the row's own columns.

    softmax(q [prefix_k, own_k]^T / sqrt(h)) [prefix_v, own_v]

  Args:
    q: [B, H, h], rotated; H = K G, a kv head's G queries side by side.
    prefix_k, prefix_v: [P, K, S, h], a group's first columns are its prefix.
    prefix_length: i32[P], 0 ... S columns.
    own_k, own_v: [B, K, T, h], in any order of positions (a ring).
    own_positions: i32[B, T]; a column is seen iff it isn't `types.EMPTY`.
      What is not seen must be finite, here as in prefix_k and prefix_v.
    group: i32[B] in any order and number; a row outside [0, P) has no prefix.
    implementation: "xla" or "pallas"; None: `kernels.implementation()`.
    interpret: run "pallas" in Pallas' interpreter, on any backend.

  Returns:
    [B, H, h] in q's dtype; 0 for a row that sees nothing. Softmax in float32.

  Raises:
    ValueError: an implementation that is not one, H not a multiple of K, or
      no group or column.

  Note:
    Forward only: "pallas" has no derivative, and "xla" none backwards.

  >>> q, own = jnp.ones((2, 1, 4)), jnp.ones((2, 1, 3, 4))
  >>> prefix, length = jnp.zeros((1, 1, 5, 4)), jnp.array([3])
  >>> positions = jnp.full((2, 3), types.EMPTY).at[1, 0].set(3)
  >>> out = shared_prefix_attention(
  ...   q, prefix, prefix, length, own, own, positions, jnp.array([0, -1]))
  >>> out[:, 0, 0].tolist()
  [0.0, 1.0]
  """
  chex.assert_rank([q, prefix_k, own_k, own_positions], [3, 4, 4, 2])
  chex.assert_equal_shape([prefix_k, prefix_v])
  chex.assert_equal_shape([own_k, own_v])
  (B, H, h), (P, K, S, _) = q.shape, prefix_k.shape
  T = own_k.shape[2]
  chex.assert_shape([own_k, own_positions], [(B, K, T, h), (B, T)])
  chex.assert_shape([prefix_length, group], [(P,), (B,)])
  chex.assert_axis_dimension(prefix_k, 3, h)
  if not P * S * T:
    raise ValueError(
      f"P={P} groups, S={S} and T={T} columns: at least one of each; a group "
      "without a prefix has length 0"
    )
  if H % K:
    raise ValueError(f"{H} query heads, {K} kv heads: H must be a multiple")
  pallas = _pick_implementation(implementation) == "pallas"
  G = H // K
  R = max(16, _TILE_QUERIES // G // 16 * 16)
  R = min(R, round_up(B, 16))
  tiles = _deal(group, P, R)
  # [tiles, K, R G, h], zeros where a place is free.
  tiled = jnp.pad(q, ((0, 1), (0, 0), (0, 0)))[tiles.row]
  tiled = tiled.reshape(-1, R, K, G, h).swapaxes(1, 2).reshape(-1, K, R * G, h)
  over_prefix = shared_prefix_tpu.over_prefix if pallas else _xla_prefix
  parts = over_prefix(
    tiled, prefix_k, prefix_v, prefix_length, tiles, interpret
  )
  parts = tuple(
    x.reshape(-1, K, R, G, x.shape[-1])
    .swapaxes(1, 2)
    .reshape(-1, K, G, x.shape[-1])
    .at[tiles.place]
    .get(mode="fill", fill_value=empty)
    for x, empty in zip(parts, (0.0, online.LOWEST))
  )
  over_own = shared_prefix_tpu.over_own if pallas else _xla_own
  out = over_own(
    q.reshape(B, K, G, h), *parts, own_k, own_v, own_positions, interpret
  )
  return out.reshape(B, H, h).astype(q.dtype)


def _deal(group, num_groups: int, R: int) -> _Tiles:
  """Rows to tiles of one group each."""
  (B,) = group.shape
  num_tiles = (B + (R - 1) * min(num_groups, B)) // R
  inside = (group >= 0) & (group < num_groups)
  bins = jnp.where(inside, group, num_groups)
  count = numerics.group_count(group, num_groups, inside)
  needed = -(-count // R)
  used = jnp.sum(needed, dtype=jnp.int32)
  order = jnp.argsort(bins, stable=True)
  index = jnp.arange(B, dtype=jnp.int32)
  sorted_place = jnp.zeros_like(index).at[order].set(index)
  mine = jnp.minimum(bins, num_groups - 1)
  rank = sorted_place - (jnp.cumsum(count) - count)[mine]
  first = (jnp.cumsum(needed) - needed)[mine]
  place = jnp.where(inside, first * R + rank, num_tiles * R)
  of_tile, _, _ = numerics.expand_counts(needed, num_tiles)
  # Unused tiles name the last one's prefix: a block that isn't moved again.
  last = jnp.maximum(used - 1, 0)
  at = jnp.minimum(jnp.arange(num_tiles, dtype=jnp.int32), last)
  row = jnp.full((num_tiles * R,), B, jnp.int32)
  row = row.at[place].set(index, mode="drop")
  return _Tiles(of_tile[at], used, row, place.astype(jnp.int32))


# --- plain JAX


def _xla_prefix(tiled, keys, values, length, tiles, interpret):
  """A loop over the used tiles: [tiles, K, R G, h] and log-normalisers."""
  del interpret
  h, S = keys.shape[3], keys.shape[2]
  out, _, log_norm = online.no_columns(tiled.shape[:3], h)[::-1]

  def one(i, carry):
    out, log_norm = carry
    group = tiles.group[i]
    visible = jnp.arange(S, dtype=jnp.int32)[None, None, :] < length[group]
    scores = online.scores(tiled[i], keys[group], visible, batch=1)
    state = online.no_columns(scores.shape[:2], h)
    state = online.add_columns(state, scores, values[group], batch=1)
    part = online.close(state)
    return out.at[i].set(part[0]), log_norm.at[i].set(part[1])

  return lax.fori_loop(0, tiles.used, one, (out, log_norm + online.LOWEST))


def _xla_own(q, out, log_norm, keys, values, positions, interpret):
  del interpret
  visible = (positions != types.EMPTY)[:, None, None, :]
  scores = online.scores(q, keys, visible, batch=2)
  state = online.resume(out, log_norm)
  return online.close(online.add_columns(state, scores, values, batch=2))[0]
