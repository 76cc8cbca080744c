"""What happens at a slot that falls free? The rule's side of the loop.

The decode loop asks in every iteration; only where rows have ended something
is done: they are scored and tallied, running rows of decided prompts are
cancelled, and new rows are appended to the queue, one after the other.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxroll import posterior, types
from jaxroll.rollout import engine, generation, sampling


class SlotRule(NamedTuple):
  """What decides over slots; pure functions of arrays with P entries.

  Attributes:
    gain: (columns, tally, counts) -> f32[P], worth of one more row of each
      prompt; `counts` are the rows begun, running ones included. -inf or NaN:
      no more rows for now.
    decided: (columns, tally, counts) -> bool[P], prompts that get no more rows
      and whose running rows are cancelled; or None.
    verify: (prompts, Rollouts[W]) -> Outcome[W]; only valid rows have ended.
  """

  gain: Callable
  decided: Callable | None
  verify: Callable


class Start(NamedTuple):
  """What is known of a step's prompts before the first row, [P] each.

  Attributes:
    prompts: types.Prompts; an id of -1 gets no rows.
    contexts: types.Contexts, each prompt's own.
    columns: what the rule reads: a pytree of arrays with leading axis P.
    opening: i32[P], rows each prompt gets before any gain is looked at; those
      of the first prompts first, all together at most the budget.
    used: i32[P], rows each prompt already has: their indices are taken.
    tally: types.Tally of evidence so far.
  """

  prompts: types.Prompts
  contexts: types.Contexts
  columns: Any
  opening: chex.Array
  used: chex.Array
  tally: types.Tally


class Memory(NamedTuple):
  """What is known between two iterations: P prompts, R rows."""

  counts: chex.Array
  tally: types.Tally
  outcome: types.Outcome


class Filling(NamedTuple):
  """The rule at work on the prompts and rows of one shard.

  Attributes:
    rule: who gets a slot.
    start: the shard's prompts.
    key: of all rows.
    slots: W. max_length: T.
  """

  rule: SlotRule
  start: Start
  key: chex.Array
  slots: int
  max_length: int

  def begin(self, request: types.Request) -> tuple[engine.Queue, Memory]:
    """The first rows, as many as there are slots."""
    rows = request.group.shape[0]
    queue = engine.Queue(
      request,
      keys=jnp.broadcast_to(self.key, (rows,)),
      order=jnp.arange(rows, dtype=jnp.int32),
      total=jnp.int32(0),
      begun=jnp.int32(0),
    )
    nothing = types.Outcome(
      reward=jnp.zeros((rows,), jnp.float32),
      status=jnp.full((rows,), types.ABORTED, jnp.int32),
    )
    none = jnp.zeros_like(self.start.opening)
    queue, counts = self.hand_out(queue, none, self.start.tally, self.slots)
    return queue, Memory(counts, self.start.tally, nothing)

  def between(self, s: engine.State, ended):
    """Scores the rows that ended, cancels what is decided, fills slots."""
    nobody = jnp.zeros_like(ended)
    return jax.lax.cond(
      jnp.any(ended),
      self._settle,
      lambda s, ended: (s.queue, s.memory, nobody),
      # The caches would be copied if they went through the branches.
      s._replace(cache=None, hidden=None, carries=None, recent=None),
      ended,
    )

  def _settle(self, s: engine.State, ended):
    request, memory = s.queue.request, s.memory
    row = jnp.minimum(s.row, request.group.shape[0] - 1)
    mine = jax.tree.map(lambda x: x[row], request).replace(valid=ended)
    texts = tuple(x[row] for x in generation.written(s))
    rollouts = generation.assemble(mine, texts, 0, self.max_length)
    outcome = self.rule.verify(self.start.prompts, rollouts)
    scored = ended & (outcome.status == types.SCORED)
    tally = posterior.tally_add(
      memory.tally, outcome.reward, mine.group, scored
    )
    at = jnp.where(ended, s.row, request.group.shape[0])
    placed = jax.tree.map(
      lambda whole, part: whole.at[at].set(part, mode="drop"),
      memory.outcome,
      outcome,
    )
    running = (s.row < request.group.shape[0]) & ~ended
    decided = self._decided(tally, memory.counts)
    cancelled = running & decided[mine.group]
    free = jnp.sum(~running | cancelled, dtype=jnp.int32)
    queue, counts = self.hand_out(s.queue, memory.counts, tally, free)
    return queue, Memory(counts, tally, placed), cancelled

  def hand_out(self, queue: engine.Queue, counts, tally, free):
    """Appends up to `free` rows, each to the prompt of largest gain then.

    Returns: the queue, and counts i32[P] with the new rows.
    """
    rows = queue.request.group.shape[0]
    allowed = (self.start.prompts.id >= 0) & (queue.request.limit[0] > 0)

    def worth(counts):
      gain = self.rule.gain(self.start.columns, tally, counts)
      gain = jnp.where(counts < self.start.opening, jnp.inf, gain)
      gain = jnp.where(allowed & ~self._decided(tally, counts), gain, -jnp.inf)
      return jnp.where(gain > -jnp.inf, gain, -jnp.inf)  # NaN is no gain

    def more(carry):
      total, _, _, _, gain = carry
      wanted = (total < queue.total + free) & (total < rows)
      return wanted & (jnp.max(gain) > -jnp.inf)

    def give(carry):
      total, counts, group, index, gain = carry
      prompt = jnp.argmax(gain).astype(jnp.int32)
      group = group.at[total].set(prompt)
      index = index.at[total].set(self.start.used[prompt] + counts[prompt])
      counts = counts.at[prompt].add(1)
      return total + 1, counts, group, index, worth(counts)

    old = queue.request
    carry = (queue.total, counts, old.group, old.index, worth(counts))
    total, counts, group, index, _ = jax.lax.while_loop(more, give, carry)
    request = old.replace(
      group=group,
      index=index,
      context=group,
      valid=jnp.arange(rows, dtype=jnp.int32) < total,
    )
    return self._with_keys(queue, request, total), counts

  def _with_keys(self, queue, request, total) -> engine.Queue:
    """The queue up to `total`, with the keys of the rows just appended."""
    rows = request.group.shape[0]
    place = queue.total + jnp.arange(self.slots, dtype=jnp.int32)
    row = jnp.minimum(place, rows - 1)
    prompt = request.group[row]
    keys = sampling.row_keys(
      self.key,
      request.born[row],
      self.start.prompts.id[prompt],
      self.start.prompts.occurrence[prompt],
      request.index[row],
    )
    at = jnp.where(place < total, place, rows)
    return queue._replace(
      request=request,
      keys=queue.keys.at[at].set(keys, mode="drop"),
      total=total,
    )

  def _decided(self, tally, counts):
    if self.rule.decided is None:
      return jnp.zeros(counts.shape, bool)
    return self.rule.decided(self.start.columns, tally, counts)


def no_rows(rows: int, born, limit) -> types.Request:
  """R places for rows that are not known yet."""
  zero = jnp.zeros((rows,), jnp.int32)
  return types.Request(
    group=zero,
    index=zero,
    context=zero,
    born=zero + born,
    limit=zero + limit,
    given=jnp.zeros((rows, 0), jnp.int32),
    given_length=zero,
    row=zero,
    valid=zero.astype(bool),
  )
