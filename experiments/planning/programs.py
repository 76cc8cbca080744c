"""What does a step compile to? The library's own functions on shapes alone.

Nothing here is a copy of the step: `rollout.generate` (prefill and the decode
loop) and `train.update` are lowered on `jax.ShapeDtypeStruct`s that carry the
shardings the trainer gives its arrays. No array of that size is ever made.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroll import models, parallel, recipe, recipes, rollout, train, types


class Work(NamedTuple):
  """What one step does.

  Attributes:
    prompts: P. rows: B, rollouts of a step.
    prompt_length: S. response_length: T.
    slots: rows decoded at once, over the whole mesh.
    micro_rows: rows of one forward and backward pass.
  """

  prompts: int
  rows: int
  prompt_length: int
  response_length: int
  slots: int
  micro_rows: int


class Abstract(NamedTuple):
  """A policy and its learner as shapes with shardings."""

  policy: types.Policy
  optimiser: Any
  learner: types.Learner


def placed(tree, mesh: Mesh, *axes):
  """A tree of shapes with one sharding for all leaves.

  Args:
    tree: of anything with shape and dtype.
    mesh: the mesh.
    axes: that every leaf's axes lie over.

  Returns:
    The tree with ShapeDtypeStructs.
  """
  where = NamedSharding(mesh, PartitionSpec(*axes))
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), tree
  )


def abstract(config: models.Config, mesh: Mesh) -> Abstract:
  """A model and AdamW's state, each leaf where the rule table puts it.

  Args:
    config: sizes of the transformer; parameters are float32 masters.
    mesh: the mesh.

  Returns:
    `Abstract`.
  """
  policy = models.policy(config)
  optimiser = train.adamw(1e-6)

  params = parameter_shapes(config)
  learner = types.Learner(params, jax.eval_shape(optimiser.init, params))
  learner = jax.tree.map(
    lambda x, where: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where),
    learner,
    parallel.shardings(learner, mesh),
  )
  return Abstract(policy, optimiser, learner)


def parameter_shapes(config: models.Config):
  """A model's parameters as shapes: float32, whatever the activations are."""
  init = models.policy(dataclasses.replace(config, dtype="float32")).init
  return jax.eval_shape(init, jax.random.key(0))


def lower_generate(model: Abstract, work: Work, mesh: Mesh):
  """`rollout.generate` of a whole step's rows in one round.

  Args:
    model: from `abstract`.
    work: sizes of the step.
    mesh: the mesh.

  Returns:
    A `jax.stages.Lowered`.
  """
  contexts = _contexts(work)

  def inputs():
    zero = jnp.zeros((work.rows,), jnp.int32)
    request = rollout.fill(
      jnp.full((work.prompts,), work.rows // work.prompts, jnp.int32),
      jnp.zeros((work.prompts,), jnp.int32),
      rows=work.rows,
      step=0,
      limit=work.response_length,
    )
    keys = rollout.row_keys(jax.random.key(0), zero, zero, zero, zero)
    return request, keys, rollout.sampler(), rollout.stops([0])

  def generate(params, contexts, request, keys, sampler, stops):
    return rollout.generate(
      model.policy,
      params,
      contexts,
      request,
      keys,
      sampler,
      stops,
      slots=work.slots,
      max_length=work.response_length,
      mesh=mesh if mesh.size > 1 else None,
    )

  others = placed((contexts, *jax.eval_shape(inputs)), mesh)
  return jax.jit(generate).lower(model.learner.params, *others)


def lower_update(model: Abstract, work: Work, mesh: Mesh):
  """`train.update` of GRPO's recipe on a whole step's rows.

  Args: as of `lower_generate`.

  Returns:
    A `jax.stages.Lowered`; the learner is donated and comes out as it lay.
  """
  sizes = types.Sizes(
    num_ids=work.prompts,
    prompts=work.prompts,
    rows=work.rows,
    prompt_length=work.prompt_length,
    response_length=work.response_length,
  )
  rules = recipes.uniform(sizes)

  def update(learner, rows, contexts, temperature, key):
    learner, metrics = train.update(
      rules,
      model.policy,
      model.optimiser,
      learner,
      rows,
      contexts,
      num_groups=work.prompts,
      micro_rows=work.micro_rows,
      temperature=temperature,
      key=key,
      mesh=mesh,
    )
    where = parallel.shardings(learner, mesh)
    return jax.lax.with_sharding_constraint(learner, where), metrics

  divided = not work.rows % parallel.row_shards(mesh)
  split = parallel.ROW_AXES if divided else None
  rows = placed(jax.eval_shape(lambda: _columns(rules, work)), mesh, split)
  others = placed(
    jax.eval_shape(
      lambda: (_contexts(work), jnp.float32(1), jax.random.key(0))
    ),
    mesh,
  )
  return jax.jit(update, donate_argnums=0).lower(model.learner, rows, *others)


def shard_bytes(tree) -> int:
  """Bytes of a tree on one device.

  Args:
    tree: ShapeDtypeStructs with shardings.

  Returns:
    The sum over its leaves.
  """
  total = 0
  for leaf in jax.tree.leaves(tree):
    shape = leaf.sharding.shard_shape(leaf.shape)
    total += math.prod(shape) * leaf.dtype.itemsize
  return total


def _contexts(work):
  shape = (work.prompts, work.prompt_length)
  return types.Contexts(
    jax.ShapeDtypeStruct(shape, jnp.int32),
    jax.ShapeDtypeStruct(shape[:1], jnp.int32),
  )


def _columns(rules, work):
  """The columns that stand before the update, as the step makes them."""
  empty = rollout.empty(work.rows, work.response_length)
  by_row = ("group", "index", "length", "given_length", "round", "stopped")
  by_token = ("tokens", "entropy", "behaviour_logp", "mask")
  columns = {name: getattr(empty, name) for name in by_row + by_token}
  wide = empty.entropy
  columns |= {
    "context": empty.context,
    "valid": empty.valid,
    "status": empty.length,
    "reward": wide[:, 0],
    "adv": wide[:, 0],
  }
  scored = {"old_logp", "ref_logp"} & set(recipe.needs(rules))
  return columns | dict.fromkeys(scored, wide)
