"""What does the policy learn from a batch? Optimiser steps over micro-batches.

Every term of the objective is `sum(weights * loss)` with weights made from the
whole optimiser batch, so that a split into micro-batches changes nothing but
memory. Rows stand by length, the longest first and those without a trained
token last: a micro-batch computes the columns that its rows reach, and none
where nothing is trained.

Rows share their contexts (`scoring.shares`): these are read once before the
micro-batches, which add up the gradient of what they took from there, and it is
pulled back through the contexts once at the end,

  dL/dp = sum_b dL_b/dp + (dprefix/dp)^T sum_b dL_b/dprefix.
"""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from jaxroll import numerics, parallel, recipe, trust, types
from jaxroll.train import optimiser as optimiser_lib
from jaxroll.train import scoring


def update(
  rules: recipe.Recipe,
  policy: types.Policy,
  optimiser: optax.GradientTransformation,
  learner: types.Learner,
  rows: Mapping[str, Any],
  contexts: types.Contexts,
  *,
  num_groups: int,
  micro_rows: int,
  temperature,
  key,
  mesh=None,
) -> tuple[types.Learner, dict]:
  """Runs the recipe's epochs and mini-batches over a batch.

  Args:
    rules: the recipe: trust, losses, epochs, minibatches.
    policy: types.Policy.
    optimiser: optax transformation, best from `train.adamw`.
    learner: the policy's.
    rows: columns with leading axis B: those of `types.COLUMNS` that exist by
      now, and `context` i32[B]. Without `old_logp` the log-probs of the only
      optimiser step stand for it, where `recipe.passes` does not name it.
    contexts: what the rows were sampled from.
    num_groups: P.
    micro_rows: rows of one forward and backward pass; on a mesh the next
      multiple of its row shards is taken.
    temperature: f32[], the sampler's.
    key: for the order of mini-batches.
    mesh: rows of a micro-batch lie over its `data` and `fsdp` axes, as many
      tokens on each shard as its rows' lengths allow, see `parallel.spread`.
      Without one, each optimiser step reads every context once if P contexts
      and its rows are at most three quarters of the tokens of rows that each
      have their own, and `policy` has `prefill` and `extend`.

  Returns:
    The new learner, and metrics: loss, kl (k3 to the ratio's anchor), entropy,
    grad_norm, clipped, the sampler's gap, optimiser_steps.

  Raises:
    ValueError: `old_logp` is missing from rows and cannot be left out.
  """
  policy = parallel.bound(policy, mesh)
  rows = dict(rows)
  if "old_logp" not in rows and "old_logp" in recipe.passes(rules):
    raise ValueError(
      f"recipe {rules.name!r} needs old_logp before the update: rows has only "
      f"{sorted(rows)}; add it, see scoring.columns"
    )
  if "old_logp" in rows or not _needs_own(rules):
    rows |= _bounds(rules, rows, num_groups=num_groups)
  size = -(-rows["group"].shape[0] // rules.minibatches)
  micro_rows = parallel.round_up(min(micro_rows, size), mesh)
  size = -(-size // micro_rows) * micro_rows
  rows = _pad(rows, size * rules.minibatches)
  order = _orders(rows["mask"].shape[0], rules, key).reshape(-1, size)

  def step(learner, index):
    batch = {name: jnp.take(x, index, axis=0) for name, x in rows.items()}
    work = _trained_length(batch)
    order = jnp.argsort(-work, stable=True)
    if mesh is not None:
      order = _spread(order, work, micro_rows, mesh)
    batch = {name: jnp.take(x, order, axis=0) for name, x in batch.items()}
    grads, sums = _gradients(
      rules,
      policy,
      learner.params,
      batch,
      contexts,
      num_groups=num_groups,
      micro_rows=micro_rows,
      temperature=temperature,
      mesh=mesh,
    )
    some = sums["tokens"] > 0
    learner = jax.lax.cond(
      some,
      lambda: optimiser_lib.apply_gradients(optimiser, learner, grads),
      lambda: learner,
    )
    norm = optax.global_norm(grads)
    return learner, sums | {"grad_norm": norm, "steps": some.astype(jnp.int32)}

  learner, sums = jax.lax.scan(step, learner, order)
  return learner, _metrics(rules, sums)


def _needs_own(rules):
  return any(recipe.asks(fn, "old_logp") for fn in rules.trust)


def _bounds(rules, columns, **specials):
  """The fields of the merged trust by name; none without a trust function."""
  if not rules.trust:
    return {}
  made = [recipe.call(fn, columns, **specials) for fn in rules.trust]
  return trust.merge(made)._asdict()


def _orders(rows, rules, key):
  """Row order of every optimiser step; a single step keeps the batch's."""
  if rules.epochs * rules.minibatches == 1:
    return jnp.arange(rows)
  keys = jax.random.split(key, rules.epochs)
  return jax.vmap(lambda k: jax.random.permutation(k, rows))(keys)


def _pad(rows, size):
  """More rows, copies of the first with nothing to train."""

  def grow(x):
    extra = size - x.shape[0]
    return jnp.concatenate([x, jnp.repeat(x[:1], extra, axis=0)])

  padded = {name: grow(x) for name, x in rows.items()}
  real = jnp.arange(size) < rows["group"].shape[0]
  padded["mask"] &= real[:, None]
  padded["valid"] &= real
  return padded


def _trained_length(rows):
  """i32[B], tokens of each row that the model has to see."""
  return jnp.where(jnp.any(rows["mask"], axis=1), rows["length"], 0)


def _spread(order, length, micro_rows, mesh):
  """The same micro-batches, each with its tokens spread over the shards."""
  pieces, shards = order.reshape(-1, micro_rows), parallel.row_shards(mesh)
  within = jax.vmap(lambda work: parallel.spread(work, shards))(length[pieces])
  return jnp.take_along_axis(pieces, within, axis=1).reshape(-1)


def _gradients(
  rules,
  policy,
  params,
  batch,
  contexts,
  *,
  num_groups,
  micro_rows,
  temperature,
  mesh,
):
  """Gradients and sums of one optimiser step, accumulated in one scan."""
  size, T = batch["tokens"].shape
  widths, prefix = scoring.widths(T), None
  if scoring.shares(policy, contexts, size, T, mesh):
    prefix = scoring.prefixes(policy, params, contexts, micro_rows=micro_rows)
  weights = {
    f"weights.{loss.name}": recipe.call(
      loss.aggregate, batch, num_groups=num_groups
    )
    for loss in rules.losses
  }
  pieces = {
    name: x.reshape(-1, micro_rows, *x.shape[1:])
    for name, x in (batch | weights).items()
  }

  def objective(params, own, piece, width):
    piece = parallel.rows(piece, mesh)
    logp, entropy = scoring.logps(
      policy,
      params,
      own,
      contexts,
      (piece["context"], piece["tokens"], _trained_length(piece)),
      temperature,
      width=width,
      mesh=mesh,
    )
    return _losses(rules, piece, logp, entropy)

  def gradient(own, piece, width):
    both = jax.grad(objective, argnums=(0, 1), has_aux=True)
    return both(params, own, piece, width)

  def at(piece):
    return scoring.take(prefix, piece["context"])

  zeros = jax.tree.map(
    lambda x: jnp.zeros(x.shape, x.dtype),
    jax.eval_shape(
      lambda piece: gradient(at(piece), piece, T),
      jax.tree.map(lambda x: x[0], pieces),
    ),
  )
  # In float32, whatever the memory is: a context's rows are many.
  back = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.float32), prefix)

  def accumulate(total, piece):
    own, longest = at(piece), jnp.max(_trained_length(piece))
    # The switch is around the gradient: inside it all branches' residuals
    # would be kept.
    branches = [functools.partial(gradient, own, piece, w) for w in widths]
    branch = 1 + scoring.narrowest(widths, longest)
    (grads, taken), sums = jax.lax.switch(
      jnp.where(jnp.any(piece["mask"]), branch, 0), [lambda: zeros, *branches]
    )
    old, back, seen = total
    back = jax.tree.map(
      lambda x, new: x.at[:, piece["context"]].add(new.astype(x.dtype)),
      back,
      taken,
    )
    highest = jnp.maximum(seen["gap_max"], sums["gap_max"])
    seen = jax.tree.map(jnp.add, seen, sums) | {"gap_max": highest}
    return (jax.tree.map(jnp.add, old, grads), back, seen), None

  (nothing, _), none = zeros
  (grads, back, sums), _ = jax.lax.scan(
    accumulate, (nothing, back, none), pieces
  )
  if prefix is not None:
    grads = scoring.pull_back(
      policy, params, contexts, back, grads, micro_rows=micro_rows
    )
  return grads, sums


def _losses(rules, piece, logp, entropy):
  """The objective of a micro-batch and what is reported of it."""
  mask = piece["mask"]
  fixed = jax.lax.stop_gradient(logp)
  columns = {"old_logp": fixed} | piece | {"logp": logp}
  if "anchor" not in piece:
    columns |= _bounds(rules, columns)
  if "anchor" not in columns:
    flat = jnp.ones_like(logp)
    unbounded = types.Trust(fixed, 0 * flat, jnp.inf * flat, flat)
    columns |= unbounded._asdict()
  total, sums = jnp.float32(0), {}
  for loss in rules.losses:
    by_token, aux = recipe.call(loss.fn, columns)
    value = jnp.sum(piece[f"weights.{loss.name}"] * by_token)
    total += loss.coefficient * value
    sums[f"loss/{loss.name}"] = value
    for name, x in aux.items():
      sums[f"sum/{loss.name}_{name}"] = numerics.masked_sum(x, mask)
  # Carried rows were sampled by an older policy: no gap of the sampler's.
  new = piece["round"] >= 0
  gap_mask = mask & new[:, None] & jnp.isfinite(piece["behaviour_logp"])
  gap = jnp.where(gap_mask, jnp.abs(fixed - piece["behaviour_logp"]), 0.0)
  sums |= {
    "tokens": jnp.sum(mask, dtype=jnp.float32),
    "sum/entropy": numerics.masked_sum(entropy, mask),
    "sum/kl": numerics.masked_sum(numerics.k3(fixed, columns["anchor"]), mask),
    "sum/gap": jnp.sum(gap),
    "sum/gap_tokens": jnp.sum(gap_mask, dtype=jnp.float32),
    "gap_max": jnp.max(gap),
  }
  return total, jax.lax.stop_gradient(sums | {"loss": total})


def _metrics(rules, sums):
  """One number each: the gap of the first step, means over those taken."""
  tokens, taken = sums["tokens"], sums["steps"] > 0
  out = {
    "loss": numerics.masked_mean(sums["loss"], taken),
    "grad_norm": numerics.masked_mean(sums["grad_norm"], taken),
    "optimiser_steps": jnp.sum(sums["steps"]),
    "sampler_gap_max": sums["gap_max"][0],
    "sampler_gap_mean": numerics.safe_divide(
      sums["sum/gap"][0], sums["sum/gap_tokens"][0]
    ),
  }
  if len(rules.losses) > 1:
    out |= {
      name: numerics.masked_mean(x, taken)
      for name, x in sums.items()
      if name.startswith("loss/")
    }
  for name, x in sums.items():
    if name.startswith("sum/") and not name.startswith("sum/gap"):
      out[name[4:]] = numerics.safe_divide(jnp.sum(x), jnp.sum(tokens))
  return out
