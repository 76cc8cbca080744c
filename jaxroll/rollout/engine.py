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
from jaxroll.rollout import prefix, sampling, stopping


class _Plan(NamedTuple):
  """What the loop reads and never changes: W slots, R rows."""

  policy: types.Policy
  params: Any
  table: prefix.Table
  request: types.Request
  keys: chex.Array  # keys[R]
  settings: sampling.Sampler
  rules: stopping.Stops
  hooks: dict[str, types.Hook]
  slots: int  # W
  max_length: int  # T
  queue: chex.Array  # i32[R], the rows to be generated come first
  total: chex.Array  # i32[], how many those are


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


def decode(
  policy: types.Policy,
  params,
  table: prefix.Table,
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
  wanted = request.valid & (request.limit > 0)
  hooks = {"explore": explore, "terminate": terminate}
  plan = _Plan(
    policy,
    params,
    table,
    request,
    keys,
    settings,
    rules,
    hooks={name: hook for name, hook in hooks.items() if hook is not None},
    slots=min(slots, rows),
    max_length=max_length,
    queue=jnp.argsort(~wanted, stable=True).astype(jnp.int32),
    total=jnp.sum(wanted, dtype=jnp.int32),
  )

  def iterate(s: _State) -> _State:
    s, token, ended = _write(plan, s)
    s, taken = _refill(plan, s, ended)
    return _advance(plan, s, token, taken)

  start, _ = _refill(plan, _idle(plan), jnp.ones((plan.slots,), bool))
  end = jax.lax.while_loop(lambda s: jnp.any(s.row < rows), iterate, start)
  return end.tokens, end.logp, end.entropy, end.length, end.stopped, end.step


def _idle(plan: _Plan) -> _State:
  """No slot has a row, no row has a token."""
  slots, rows = plan.slots, plan.request.group.shape[0]
  hidden, columns = plan.table.hidden, plan.table.cache.positions.shape[1]
  zero = jnp.zeros((slots,), jnp.int32)
  buffer = jnp.zeros((rows, plan.max_length), jnp.float32)
  return _State(
    step=jnp.int32(0),
    next_row=jnp.int32(0),
    row=jnp.full((slots,), rows, jnp.int32),
    t=zero,
    start=zero,
    hidden=jnp.zeros((slots, hidden.shape[1]), hidden.dtype),
    recent=stopping.nothing_recent(slots, plan.rules),
    cache=plan.policy.init_cache(slots, columns + plan.max_length),
    carries=_fresh_carries(plan),
    tokens=buffer.astype(jnp.int32),
    logp=buffer,
    entropy=buffer,
    length=jnp.zeros((rows,), jnp.int32),
    stopped=jnp.zeros((rows,), bool),
  )


def _fresh_carries(plan: _Plan):
  return {name: hook.init(plan.slots) for name, hook in plan.hooks.items()}


def _write(plan: _Plan, s: _State) -> tuple[_State, chex.Array, chex.Array]:
  """Every live slot writes its next token; returns it and who ended."""
  request, rows = plan.request, plan.request.group.shape[0]
  live = s.row < rows
  row = jnp.minimum(s.row, rows - 1)
  carries = dict(s.carries)
  logits = plan.policy.unembed(plan.params, s.hidden)
  if "explore" in plan.hooks:
    logits, carries["explore"] = plan.hooks["explore"].apply(
      logits, carries["explore"]
    )
  shaped = sampling.shape_logits(logits, plan.settings)
  token = sampling.draw(shaped, plan.keys[row], s.t)
  is_given = s.t < request.given_length[row]
  if request.given.shape[1]:
    column = jnp.minimum(s.t, request.given.shape[1] - 1)
    token = jnp.where(is_given, request.given[row, column], token)
  logp, entropy = sampling.measure(shaped, token)
  recent = stopping.push(s.recent, token)
  stop = stopping.reached(plan.rules, token, recent)
  if "terminate" in plan.hooks:
    trace = types.Trace(token, logp, entropy, s.t, is_given)
    asked, carries["terminate"] = plan.hooks["terminate"].apply(
      trace, carries["terminate"]
    )
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


def _refill(plan: _Plan, s: _State, ended) -> tuple[_State, chex.Array]:
  """Ended slots take the queue's next rows; returns who took one."""
  rows = plan.request.group.shape[0]
  place = s.next_row + jnp.cumsum(ended, dtype=jnp.int32) - 1
  taken = ended & (place < plan.total)
  row = jnp.where(taken, plan.queue[jnp.clip(place, 0, rows - 1)], rows)
  row = jnp.where(ended, row, s.row)
  context = plan.request.context[jnp.minimum(row, rows - 1)]
  keys, values = prefix.copy(s.cache, plan.table, taken, context)
  positions = jnp.pad(
    plan.table.cache.positions[context],
    ((0, 0), (0, plan.max_length)),
    constant_values=types.EMPTY,
  )

  def pick(new, old):
    return _select_rows(taken, new, old)

  s = s._replace(
    next_row=s.next_row + jnp.sum(ended, dtype=jnp.int32),
    row=row,
    t=pick(jnp.zeros_like(s.t), s.t),
    start=pick(plan.table.length[context], s.start),
    hidden=pick(plan.table.hidden[context], s.hidden),
    recent=pick(stopping.nothing_recent(plan.slots, plan.rules), s.recent),
    cache=types.Cache(keys, values, pick(positions, s.cache.positions)),
    carries=pick(_fresh_carries(plan), s.carries),
  )
  return s, taken


def _advance(plan: _Plan, s: _State, token, taken) -> _State:
  """The tokens of slots that go on pass through the model.

  The others' keys and values are written too, at position EMPTY.
  """
  going = (s.row < plan.request.group.shape[0]) & ~taken
  position = jnp.where(going, s.start + s.t - 1, types.EMPTY)
  ring = plan.table.cache.positions.shape[1]
  hidden, cache = plan.policy.apply(
    plan.params,
    token[:, None],
    position[:, None],
    s.cache,
    ring + s.step % plan.max_length,
  )
  hidden = jnp.where(taken[:, None], s.hidden, hidden[:, 0])
  return s._replace(step=s.step + 1, hidden=hidden, cache=cache)


def _select_rows(where, new, old):
  def choose(a, b):
    return jnp.where(jnp.expand_dims(where, tuple(range(1, a.ndim))), a, b)

  return jax.tree.map(choose, new, old)
