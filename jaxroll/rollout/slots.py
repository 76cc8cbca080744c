"""Who gets the slot that has just fallen free? Allocation in the decode loop.

Whenever rows end, they are scored on the device and tallied; then, one slot
after the other,

  p* = argmax_p gain_p(tally, counts),  counts[p*] += 1,

until no slot is free, R rows have begun, or every gain is -inf. A prompt below
its opening rows has gain +inf, a decided one -inf; rows of a decided prompt
that still run are cancelled. There are no rounds: a slot is empty only while
no prompt may have another row.

A row is still (born, prompt id, occurrence, index), so that any row alone is
generated again from its identity. WHICH prompt gets a row depends on which
rows ended before, hence on the number of slots: the same executable and slots
give the same rows, other slots another allocation.

On a mesh each shard of rows owns an equal slice of the prompts, its share of
the rows and its slots: gains are compared within a shard, and no collective is
needed inside the loop.

Note:
  Rows end in the order of their length: what is known when a slot falls free
  over-represents short rows, and cancelling keeps that so.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from jaxroll import parallel, types
from jaxroll.parallel import ROW_AXES
from jaxroll.rollout import (
  engine,
  filling,
  generation,
  prefix,
  sampling,
  stopping,
)


class Filled(NamedTuple):
  """What slots have made of a budget.

  Attributes:
    request: R rows; those never begun are not valid.
    rollouts: of these rows.
    outcome: of these rows. ABORTED: never begun, or cancelled while running.
    counts: i32[P], rows begun. tally: with the rows that were scored.
    info: what it cost.
  """

  request: types.Request
  rollouts: types.Rollouts
  outcome: types.Outcome
  counts: chex.Array
  tally: types.Tally
  info: generation.Info


def generate_at_slots(
  policy: types.Policy,
  params,
  start: filling.Start,
  rule: filling.SlotRule,
  key,
  settings: sampling.Sampler,
  rules: stopping.Stops,
  *,
  rows: int,
  born,
  limit,
  slots: int,
  max_length: int,
  explore: types.Hook | None = None,
  terminate: types.Hook | None = None,
  mesh: jax.sharding.Mesh | None = None,
) -> Filled:
  """Spends a budget of rows, deciding at every free slot who gets it.

  Args:
    policy, params, settings, rules, slots, max_length, explore, terminate: as
      for `rollout.generate`.
    start: the step's P prompts.
    rule: who gets a slot, and how a row is scored.
    key: of all rows, see `rollout.row_keys`.
    rows: R, static; never more rows are begun.
    born: i32[], the running step.
    limit: i32[], most tokens after a context.
    mesh: prompts, rows and slots are split over its `data` and `fsdp` axes;
      their number must divide P and R, since no shard gives another its budget.

  Returns:
    `Filled`; on a mesh the rows of each shard stand together.

  Raises:
    ValueError: where slots or the mesh do not fit.

  The prompt of two rows in the opening, then whoever has fewer:

  >>> from jaxroll import posterior, rollout
  >>> table = jnp.roll(jnp.eye(3), 1, axis=1)
  >>> lm = types.Policy(
  ...   init=lambda key: table,
  ...   apply=lambda params, tokens, at, cache, column: (params[tokens], cache),
  ...   unembed=lambda params, hidden: hidden,
  ...   init_cache=lambda rows, columns: types.Cache(
  ...     (), (), jnp.zeros((rows, columns), jnp.int32)
  ...   ),
  ... )
  >>> zero, one = jnp.zeros(2, jnp.int32), jnp.ones(2, jnp.int32)
  >>> start = rollout.Start(
  ...   types.Prompts(jnp.array([7, 8]), zero, None),
  ...   types.Contexts(jnp.array([[0], [1]]), one),
  ...   columns=(),
  ...   opening=jnp.array([0, 2]),
  ...   used=zero,
  ...   tally=posterior.tally_init(2),
  ... )
  >>> rule = rollout.SlotRule(
  ...   gain=lambda columns, tally, counts: -counts.astype(jnp.float32),
  ...   decided=None,
  ...   verify=lambda prompts, rows: types.Outcome(
  ...     rows.length.astype(jnp.float32), jnp.zeros_like(rows.length)
  ...   ),
  ... )
  >>> filled = generate_at_slots(
  ...   lm,
  ...   table,
  ...   start,
  ...   rule,
  ...   jax.random.key(0),
  ...   rollout.sampler(temperature=0.0),
  ...   rollout.stops([0]),
  ...   rows=5,
  ...   born=0,
  ...   limit=5,
  ...   slots=2,
  ...   max_length=5,
  ... )
  >>> filled.rollouts.group.tolist(), filled.outcome.reward.tolist()
  ([1, 1, 0, 0, 0], [2.0, 2.0, 3.0, 3.0, 3.0])
  """
  policy = parallel.bound(policy, mesh)
  shards = parallel.row_shards(mesh)
  _check(start, rows, slots, mesh)
  local_rows = rows // shards
  local_slots = parallel.round_up(slots, mesh) // shards

  def run(params, start, key, settings, rules, born, limit):
    params = policy.prepare(params)
    table = prefix.prefill(policy, params, start.contexts)
    fill = filling.Filling(
      rule, start, key, min(local_slots, local_rows), max_length
    )
    queue, memory = fill.begin(filling.no_rows(local_rows, born, limit))
    end = engine.decode(
      policy,
      params,
      table,
      queue,
      settings,
      rules,
      slots=local_slots,
      max_length=max_length,
      explore=explore,
      terminate=terminate,
      between=fill.between,
      memory=memory,
    )
    request = end.queue.request
    if shards > 1:
      # A shard counts its own prompts from 0.
      first = jax.lax.axis_index(ROW_AXES) * start.opening.shape[0]
      request = request.replace(
        group=request.group + first, context=request.context + first
      )
    cost = end.step[None], end.paid[None]
    return request, generation.written(end), end.memory, cost

  if shards > 1:
    split, whole = PartitionSpec(ROW_AXES), PartitionSpec()
    run = jax.shard_map(
      run,
      mesh=mesh,
      in_specs=(whole, split, whole, whole, whole, whole, whole),
      out_specs=split,
      axis_names=set(ROW_AXES),
      check_vma=False,
    )
  born, limit = jnp.int32(born), jnp.minimum(jnp.int32(limit), max_length)
  request, written, memory, cost = run(
    params, start, key, settings, rules, born, limit
  )
  request = request.replace(row=jnp.arange(rows, dtype=jnp.int32))
  return Filled(
    request,
    generation.assemble(request, written, 0, max_length),
    memory.outcome,
    memory.counts,
    memory.tally,
    generation.info(*cost),
  )


def _check(start, rows, slots, mesh):
  chex.assert_equal_shape_prefix(jax.tree.leaves(start), 1)
  chex.assert_rank([start.opening, start.used], 1)
  if slots < 1 or rows < 1:
    raise ValueError(f"slots={slots}, rows={rows}: both must be at least 1")
  parallel.check(mesh, {"prompts": start.opening.shape[0], "rows": rows})
