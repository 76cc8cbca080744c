"""What do the rows of a request become? One call: contexts in, rollouts out."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from jaxroll import parallel, types
from jaxroll.parallel import ROW_AXES
from jaxroll.rollout import engine, prefix, sampling, stopping


class Info(NamedTuple):
  """What a generation cost.

  Attributes:
    decode_steps: i32[], iterations of the longest queue.
    slot_steps: i32[], slots of each iteration, over all iterations and queues:
      what was paid; generated tokens / slot_steps is the share of useful work.
  """

  decode_steps: chex.Array
  slot_steps: chex.Array


def generate(
  policy: types.Policy,
  params,
  contexts: types.Contexts,
  request: types.Request,
  keys,
  settings: sampling.Sampler,
  rules: stopping.Stops,
  *,
  slots: int,
  max_length: int,
  round_index=0,
  explore: types.Hook | None = None,
  terminate: types.Hook | None = None,
  mesh: jax.sharding.Mesh | None = None,
) -> tuple[types.Rollouts, Info]:
  """Generates the rows of a request.

  Contexts are prefilled once each and shared by their rows. Given tokens are
  written first, one decode step each, then the row samples until a stop rule
  or its limit ends it. Long common stems are cheaper as contexts of their own.

  Args:
    policy: types.Policy.
    params: the policy's parameters.
    contexts: X contexts of up to S tokens.
    request: R rows. A resumed row gives its tokens so far and its old
      identity in `keys`; a forked row gives its parent's stem. A limit above
      `max_length` counts as `max_length`.
    keys: keys[R], from `sampling.row_keys`.
    settings: the sampler's, from `sampling.sampler`.
    rules: stop rules, from `rollout.stops`.
    slots: rows decoded at once, over the whole mesh; at least 1. The next
      multiple of the row shards is taken.
    max_length: T, most tokens after a context.
    round_index: i32[], noted in `Rollouts.round`.
    explore: changes logits before sampling; `behaviour_logp` is of the
      changed distribution.
    terminate: further stop rule.
    mesh: rows are split over its `data` and `fsdp` axes, each shard with its
      own queue and slots; `tensor` and others are left to the compiler. Where
      the shards do not divide rows or contexts, some get an empty one more.

  Returns:
    `types.Rollouts` with R rows in the request's order, and `Info`.

  Raises:
    ValueError: where slots or the given columns do not fit.

  A model of one logit table, greedy: 0 is followed by 1, 1 by 2, 2 by 0.

  >>> from jaxroll import rollout
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
  >>> contexts = types.Contexts(jnp.array([[0], [1]]), length=one)
  >>> rows, info = generate(
  ...   lm,
  ...   table,
  ...   contexts,
  ...   rollout.fill(one, zero, rows=2, step=0, limit=5),
  ...   rollout.row_keys(jax.random.key(0), zero, zero, zero, zero),
  ...   rollout.sampler(temperature=0.0),
  ...   rollout.stops([0]),
  ...   slots=2,
  ...   max_length=5,
  ... )
  >>> rows.tokens.tolist()
  [[1, 2, 0, 0, 0], [2, 0, 0, 0, 0]]
  >>> rows.length.tolist(), int(info.decode_steps), int(info.slot_steps)
  ([3, 2], 3, 6)
  """
  _check_shapes(contexts, request, keys)
  request = request.replace(limit=jnp.minimum(request.limit, max_length))
  if slots < 1:
    raise ValueError(f"slots={slots}: must be at least 1")
  if request.given.shape[1] > max_length:
    raise ValueError(
      f"given has {request.given.shape[1]} columns, more than "
      f"max_length={max_length}: raise max_length"
    )
  options = dict(max_length=max_length, explore=explore, terminate=terminate)
  policy = parallel.bound(policy, mesh)
  shards = parallel.row_shards(mesh)
  local_slots = parallel.round_up(slots, mesh) // shards

  def run(params, contexts, request, keys, settings, rules):
    params = policy.prepare(params)
    table = prefix.prefill(policy, params, contexts)
    if shards > 1:
      table = jax.tree.map(
        lambda x: jax.lax.all_gather(x, ROW_AXES, axis=0, tiled=True), table
      )
    end = engine.decode(
      policy,
      params,
      table,
      engine.in_order(request, keys),
      settings,
      rules,
      slots=local_slots,
      **options,
    )
    return written(end), (end.step[None], end.paid[None])

  if shards > 1:
    run = _over_rows(run, mesh, shards)
  rows, cost = run(params, contexts, request, keys, settings, rules)
  rollouts = assemble(request, rows, round_index, max_length)
  return rollouts, info(*cost)


def info(steps, paid) -> Info:
  """What the queues' iterations i32[shards] and their slots make."""
  return Info(jnp.max(steps), jnp.sum(paid))


def _check_shapes(contexts, request, keys):
  chex.assert_rank([contexts.tokens, request.given], 2)
  chex.assert_equal_shape_prefix(jax.tree.leaves(contexts), 1)
  chex.assert_equal_shape_prefix([*jax.tree.leaves(request), keys], 1)


def _over_rows(run, mesh, shards):
  """`run` with a queue for each shard of rows.

  Rows are dealt like cards, those of the highest limits first and those that
  are not valid last, so that every shard gets as many, with as many tokens to
  come, and its part of every prompt's; contexts are prefilled by shards, then
  gathered before the loop, inside which no collective crosses row shards.
  """
  split, whole = PartitionSpec(ROW_AXES), PartitionSpec()
  sharded = jax.shard_map(
    run,
    mesh=mesh,
    in_specs=(whole, split, split, split, whole, whole),
    out_specs=split,
    axis_names=set(ROW_AXES),
    check_vma=False,
  )

  def pad(x):
    extra = -x.shape[0] % shards
    return jnp.concatenate([x, jnp.repeat(x[-1:], extra, axis=0)])

  def call(params, contexts, request, keys, settings, rules):
    rows = request.group.shape[0]
    contexts = jax.tree.map(pad, contexts)
    padded, keys = jax.tree.map(pad, (request, keys))
    real = jnp.arange(padded.valid.shape[0]) < rows
    padded = padded.replace(valid=padded.valid & real)
    most = jnp.where(padded.valid, padded.limit, 0)
    order = parallel.spread(most, shards)
    padded, keys = jax.tree.map(lambda x: x[order], (padded, keys))
    out, cost = sharded(params, contexts, padded, keys, settings, rules)
    back = jnp.argsort(order)[:rows]
    return jax.tree.map(lambda x: x[back], out), cost

  return call


def written(end: engine.State) -> tuple:
  """What the loop wrote of its rows: tokens, logp, entropy, length, stopped."""
  return end.tokens, end.logp, end.entropy, end.length, end.stopped


def assemble(request, rows, round_index, max_length) -> types.Rollouts:
  """Rollouts of a request's rows.

  Args:
    request: R rows.
    rows: of each, as `written` has them.
    round_index: i32[], noted in `Rollouts.round`.
    max_length: T.

  Returns:
    `types.Rollouts` [R].
  """
  tokens, logp, entropy, length, stopped = rows
  at = jnp.arange(max_length, dtype=jnp.int32)[None, :]
  inside = at < length[:, None]
  given = inside & (at < request.given_length[:, None])
  origin = jnp.where(inside, types.SAMPLED, types.PAD)
  return types.Rollouts(
    group=request.group,
    index=request.index,
    context=request.context,
    born=request.born,
    round=jnp.full_like(request.group, 1) * round_index,
    given_length=jnp.minimum(request.given_length, length),
    length=length,
    valid=request.valid,
    stopped=stopped,
    tokens=tokens,
    origin=jnp.where(given, types.GIVEN, origin).astype(jnp.int8),
    behaviour_logp=logp,
    entropy=entropy,
    mask=inside & ~given,
  )
