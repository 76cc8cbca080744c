"""How are rows generated? Slots refilled inside one jitted while loop.

Contexts are prefilled once each into a table. Rows wait in a queue; each slot
decodes one row and takes the next when its row ends, copying that row's prefix
from the table once. All slots write the same cache column at a step: columns
0 ... S-1 hold the slot's prefix, the other T form a ring, and a column's
position (or EMPTY) says whether a query may see it. So the write is one
contiguous update whatever each row's age, and a row's columns are reused only
after T steps, when the row has ended.

One iteration: logits of every slot -> token (given or sampled) -> stop rules
-> ended slots take new rows -> the others' tokens go through the model.
"""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxroll import types
from jaxroll.rollout import sampling, stopping


class Table(NamedTuple):
  """Prefilled contexts.

  Attributes:
    cache: Cache of X rows and S columns.
    hidden: f[X, D], of each context's last token.
    length: i32[X].
  """

  cache: types.Cache
  hidden: chex.Array
  length: chex.Array


class _State(NamedTuple):
  """What the loop carries: W slots, then the rows' buffers."""

  step: chex.Array
  next_row: chex.Array  # place in the queue
  row: chex.Array  # i32[W], R where the slot is idle
  t: chex.Array  # i32[W], tokens written after the context
  start: chex.Array  # i32[W], context length
  hidden: chex.Array  # [W, D], of the last token
  recent: chex.Array  # i32[W, stop sequence width]
  cache: types.Cache
  carries: Any  # of the hooks
  tokens: chex.Array  # i32[R, T]
  logp: chex.Array  # f32[R, T]
  entropy: chex.Array  # f32[R, T]
  length: chex.Array  # i32[R]
  stopped: chex.Array  # bool[R]


def prefill(policy: types.Policy, params, contexts: types.Contexts) -> Table:
  """Runs every context through the model once.

  Args:
    policy: types.Policy.
    params: as `policy.prepare` gives them.
    contexts: X contexts of up to S tokens.

  Returns:
    A `Table` of X rows.
  """
  rows, columns = contexts.tokens.shape
  at = jnp.arange(columns, dtype=jnp.int32)[None, :]
  positions = jnp.where(at < contexts.length[:, None], at, types.EMPTY)
  cache = policy.init_cache(rows, columns)
  hidden, cache = policy.apply(
    params, contexts.tokens, positions, cache, jnp.int32(0)
  )
  last = jnp.take_along_axis(
    hidden, contexts.length[:, None, None] - 1, axis=1
  )[:, 0]
  return Table(cache, last, contexts.length)


def decode(
  policy: types.Policy,
  params,
  table: Table,
  request: types.Request,
  keys,
  settings: sampling.Sampler,
  rules: stopping.Stops,
  *,
  slots: int,
  max_length: int,
  explore: types.Hook | None = None,
  terminate: types.Hook | None = None,
):
  """Decodes the rows of a request; see `rollout.generate`.

  Returns:
    tokens i32[R, T], logp f32[R, T], entropy f32[R, T], length i32[R],
    stopped bool[R], decode steps i32[].
  """
  rows = request.group.shape[0]
  slots = min(slots, rows)
  prefix = table.cache.positions.shape[1]
  wanted = request.valid & (request.limit > 0)
  queue = jnp.argsort(~wanted, stable=True).astype(jnp.int32)
  total = jnp.sum(wanted, dtype=jnp.int32)
  hooks = {"explore": explore, "terminate": terminate}
  hooks = {name: hook for name, hook in hooks.items() if hook is not None}

  def fresh_carries():
    return {name: hook.init(slots) for name, hook in hooks.items()}

  def refill(s: _State, ended) -> tuple[_State, chex.Array]:
    """Ended slots take the queue's next rows; returns who took one."""
    place = s.next_row + jnp.cumsum(ended, dtype=jnp.int32) - 1
    taken = ended & (place < total)
    row = jnp.where(taken, queue[jnp.clip(place, 0, rows - 1)], rows)
    row = jnp.where(ended, row, s.row)
    context = request.context[jnp.minimum(row, rows - 1)]
    keys_, values = _copy_prefixes(s.cache, table.cache, taken, context)
    positions = jnp.where(
      taken[:, None],
      jnp.pad(
        table.cache.positions[context],
        ((0, 0), (0, max_length)),
        constant_values=types.EMPTY,
      ),
      s.cache.positions,
    )
    s = s._replace(
      next_row=s.next_row + jnp.sum(ended, dtype=jnp.int32),
      row=row,
      t=jnp.where(taken, 0, s.t),
      start=jnp.where(taken, table.length[context], s.start),
      hidden=jnp.where(taken[:, None], table.hidden[context], s.hidden),
      recent=jnp.where(
        taken[:, None], stopping.nothing_recent(slots, rules), s.recent
      ),
      cache=types.Cache(keys_, values, positions),
      carries=_select_rows(taken, fresh_carries(), s.carries),
    )
    return s, taken

  def write(s: _State) -> tuple[_State, chex.Array, chex.Array]:
    """Every live slot writes its next token; returns it and who ended."""
    live = s.row < rows
    row = jnp.minimum(s.row, rows - 1)
    carries = dict(s.carries)
    logits = policy.unembed(params, s.hidden)
    if explore is not None:
      logits, carries["explore"] = explore.apply(logits, carries["explore"])
    shaped = sampling.shape_logits(logits, settings)
    token = sampling.draw(shaped, keys[row], s.t)
    is_given = s.t < request.given_length[row]
    if request.given.shape[1]:
      column = jnp.minimum(s.t, request.given.shape[1] - 1)
      token = jnp.where(is_given, request.given[row, column], token)
    logp, entropy = sampling.measure(shaped, token)
    recent = stopping.push(s.recent, token)
    stop = stopping.reached(rules, token, recent)
    if terminate is not None:
      trace = types.Trace(token, logp, entropy, s.t, is_given)
      asked, carries["terminate"] = terminate.apply(trace, carries["terminate"])
      stop |= asked
    stop &= live & ~is_given
    ended = live & (stop | (s.t + 1 >= request.limit[row]))

    def put(buffer, value):
      return buffer.at[s.row, s.t].set(value, mode="drop")

    s = s._replace(
      t=s.t + live.astype(jnp.int32),
      recent=recent,
      carries=carries,
      tokens=put(s.tokens, token),
      logp=put(s.logp, logp),
      entropy=put(s.entropy, entropy),
      length=s.length.at[s.row].add(1, mode="drop"),
      stopped=s.stopped.at[s.row].max(stop, mode="drop"),
    )
    return s, token, ended

  def iterate(s: _State) -> _State:
    s, token, ended = write(s)
    s, taken = refill(s, ended)
    going = (s.row < rows) & ~taken
    position = jnp.where(going, s.start + s.t - 1, types.EMPTY)
    column = prefix + s.step % max_length
    hidden, cache = policy.apply(
      params, token[:, None], position[:, None], s.cache, column
    )
    hidden = jnp.where(taken[:, None], s.hidden, hidden[:, 0])
    return s._replace(step=s.step + 1, hidden=hidden, cache=cache)

  idle = jnp.full((slots,), rows, jnp.int32)
  zero = jnp.zeros((slots,), jnp.int32)
  buffer = jnp.zeros((rows, max_length), jnp.float32)
  start = _State(
    step=jnp.int32(0),
    next_row=jnp.int32(0),
    row=idle,
    t=zero,
    start=zero,
    hidden=jnp.zeros((slots, table.hidden.shape[1]), table.hidden.dtype),
    recent=stopping.nothing_recent(slots, rules),
    cache=policy.init_cache(slots, prefix + max_length),
    carries=fresh_carries(),
    tokens=buffer.astype(jnp.int32),
    logp=buffer,
    entropy=buffer,
    length=jnp.zeros((rows,), jnp.int32),
    stopped=jnp.zeros((rows,), bool),
  )
  start, _ = refill(start, jnp.ones((slots,), bool))
  end = jax.lax.while_loop(lambda s: jnp.any(s.row < rows), iterate, start)
  return end.tokens, end.logp, end.entropy, end.length, end.stopped, end.step


def _copy_prefixes(cache, table, taken, context):
  """Copies the table's rows into the slots that took a row, one at a time.

  A loop over the slots that need it, not a select over all: its cost is the
  prefixes really copied, and the cache is updated in place.
  """

  def body(carry):
    left, keys, values = carry
    slot = jnp.argmax(left)
    at = (slot, 0, 0, 0)

    def copy(into, source):
      piece = jax.lax.dynamic_slice_in_dim(source, context[slot], 1, axis=0)
      return jax.lax.dynamic_update_slice(into, piece, at)

    keys = jax.tree.map(copy, keys, table.keys)
    values = jax.tree.map(copy, values, table.values)
    return left.at[slot].set(False), keys, values

  _, keys, values = jax.lax.while_loop(
    lambda carry: jnp.any(carry[0]), body, (taken, cache.keys, cache.values)
  )
  return keys, values


def _select_rows(where, new, old):
  def choose(a, b):
    return jnp.where(jnp.expand_dims(where, tuple(range(1, a.ndim))), a, b)

  return jax.tree.map(choose, new, old)
