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

Once the queue is empty and half of the slots are, the rows that still run move
together and go on in half as many slots, and then in an eighth: the tail of a
few long rows does not pay for slots that nobody needs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxroll import types
from jaxroll.rollout import prefix, sampling, stopping


class Queue(NamedTuple):
  """R rows and their turns; what stands behind `total` may yet be written."""

  request: types.Request
  keys: chex.Array  # keys[R]
  order: chex.Array  # i32[R], the rows to be generated come first
  total: chex.Array  # i32[], how many those are
  begun: chex.Array  # i32[], how many of them have had a slot


class _Plan(NamedTuple):
  """What the loop reads and never changes: W slots, R rows."""

  policy: types.Policy
  params: Any
  table: prefix.Table
  settings: sampling.Sampler
  rules: stopping.Stops
  hooks: dict[str, types.Hook]
  slots: int  # W
  rows: int  # R
  max_length: int  # T


class State(NamedTuple):
  """What the loop carries: W slots, then the rows' buffers."""

  step: chex.Array
  paid: chex.Array  # i32[], slots times iterations
  queue: Queue
  memory: Any  # of `between`
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
  queue: Queue,
  settings: sampling.Sampler,
  rules: stopping.Stops,
  *,
  slots: int,
  max_length: int,
  explore: types.Hook | None = None,
  terminate: types.Hook | None = None,
  between: Callable | None = None,
  memory=(),
) -> State:
  """Decodes the rows of a queue; see `rollout.generate`.

  Args:
    policy, params, table, settings, rules, slots, max_length, explore,
      terminate: as `rollout.generate` has them.
    queue: R rows, from `in_order` or one that `between` goes on writing.
    between: (State, ended bool[W]) -> Queue, memory, cancelled bool[W], called
      in every iteration when rows have ended and before slots are refilled;
      None where the queue is complete.
    memory: of `between`, before the first iteration.

  Returns:
    The last `State`.
  """
  rows = queue.request.group.shape[0]
  hooks = {"explore": explore, "terminate": terminate}
  plan = _Plan(
    policy,
    params,
    table,
    settings,
    rules,
    hooks={name: hook for name, hook in hooks.items() if hook is not None},
    slots=min(slots, rows),
    rows=rows,
    max_length=max_length,
  )
  nobody = jnp.zeros((plan.slots,), bool)
  state, _ = _refill(plan, _idle(plan, queue, memory), nobody)
  widths = _widths(plan.slots)
  for width, enough in zip(widths, (*widths[1:], 0)):
    state = _narrowed(state, plan.slots, width)
    plan = plan._replace(slots=width)
    state = _run(plan, state, between, enough)
  return state


def _widths(slots: int) -> tuple[int, ...]:
  """Numbers of slots of a decode, the later ones for its tail.

  Each is a loop to compile. From 64 slots on, quarters and sixteenths as well
  would save less than a tenth of the tail.
  """
  return (slots, slots // 2, slots // 8) if slots >= 16 else (slots,)


def _run(plan: _Plan, state: State, between, enough: int) -> State:
  """Iterates until no row waits and `enough` slots hold those that run."""

  def going(s: State):
    running = jnp.sum(s.row < plan.rows)
    # What `between` may yet append waits too.
    total = s.queue.total if between is None else plan.rows
    waits = (running > 0) & (s.queue.begun < total)
    return (running > enough) | waits

  def iterate(s: State) -> State:
    s, token, ended = _write(plan, s)
    if between is not None:
      queue, memory, cancelled = between(s, ended)
      s, ended = s._replace(queue=queue, memory=memory), ended | cancelled
    s, taken = _refill(plan, s, ended)
    return _advance(plan, s, token, taken)

  return jax.lax.while_loop(going, iterate, state)


def _narrowed(s: State, slots: int, width: int) -> State:
  """The state in the first `width` slots, which take all that run."""
  if width == slots:
    return s
  order = jnp.argsort(s.row >= s.length.shape[0], stable=True)[:width]
  names = ("row", "t", "start", "hidden", "recent", "cache", "carries")
  held = {name: getattr(s, name) for name in names}
  return s._replace(**jax.tree.map(lambda x: x[order], held))


def in_order(request: types.Request, keys) -> Queue:
  """The queue of a whole request: its valid rows in their order."""
  wanted = request.valid & (request.limit > 0)
  return Queue(
    request,
    keys,
    order=jnp.argsort(~wanted, stable=True).astype(jnp.int32),
    total=jnp.sum(wanted, dtype=jnp.int32),
    begun=jnp.int32(0),
  )


def _idle(plan: _Plan, queue: Queue, memory) -> State:
  """No slot has a row, no row has a token."""
  slots, rows = plan.slots, plan.rows
  hidden, columns = plan.table.hidden, plan.table.cache.positions.shape[1]
  zero = jnp.zeros((slots,), jnp.int32)
  buffer = jnp.zeros((rows, plan.max_length), jnp.float32)
  return State(
    step=jnp.int32(0),
    paid=jnp.int32(0),
    queue=queue,
    memory=memory,
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


def _write(plan: _Plan, s: State) -> tuple[State, chex.Array, chex.Array]:
  """Every live slot writes its next token; returns it and who ended."""
  request, rows = s.queue.request, plan.rows
  live = s.row < rows
  row = jnp.minimum(s.row, rows - 1)
  carries = dict(s.carries)
  logits = plan.policy.unembed(plan.params, s.hidden)
  if "explore" in plan.hooks:
    logits, carries["explore"] = plan.hooks["explore"].apply(
      logits, carries["explore"]
    )
  shaped = sampling.shape_logits(logits, plan.settings)
  token = sampling.draw(shaped, s.queue.keys[row], s.t, plan.settings.noise)
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


def _refill(plan: _Plan, s: State, ended) -> tuple[State, chex.Array]:
  """Free slots take the queue's next rows; returns who took one."""
  queue, rows = s.queue, plan.rows
  free = ended | (s.row >= rows)
  place = queue.begun + jnp.cumsum(free, dtype=jnp.int32) - 1
  taken = free & (place < queue.total)
  row = jnp.where(taken, queue.order[jnp.clip(place, 0, rows - 1)], rows)
  row = jnp.where(free, row, s.row)
  context = queue.request.context[jnp.minimum(row, rows - 1)]
  keys, values = prefix.copy(s.cache, plan.table, taken, context)
  positions = jnp.pad(
    plan.table.cache.positions[context],
    ((0, 0), (0, plan.max_length)),
    constant_values=types.EMPTY,
  )

  def pick(new, old):
    return _select_rows(taken, new, old)

  s = s._replace(
    queue=queue._replace(begun=queue.begun + jnp.sum(taken, dtype=jnp.int32)),
    row=row,
    t=pick(jnp.zeros_like(s.t), s.t),
    start=pick(plan.table.length[context], s.start),
    hidden=pick(plan.table.hidden[context], s.hidden),
    recent=pick(stopping.nothing_recent(plan.slots, plan.rules), s.recent),
    cache=types.Cache(keys, values, pick(positions, s.cache.positions)),
    carries=pick(_fresh_carries(plan), s.carries),
  )
  return s, taken


def _advance(plan: _Plan, s: State, token, taken) -> State:
  """The tokens of slots that go on pass through the model.

  The others' keys and values are written too, at position EMPTY.
  """
  going = (s.row < plan.rows) & ~taken
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
  return s._replace(
    step=s.step + 1, paid=s.paid + plan.slots, hidden=hidden, cache=cache
  )


def _select_rows(where, new, old):
  def choose(a, b):
    return jnp.where(jnp.expand_dims(where, tuple(range(1, a.ndim))), a, b)

  return jax.tree.map(choose, new, old)
