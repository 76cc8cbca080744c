"""An update is its equation, whatever the micro-batches."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxroll import allocate, numerics, objective, train, trust, types
from jaxroll.recipe import Recipe
from tests.train import rows as rows_lib
from tests.train import tiny

ROWS, CONTEXTS = rows_lib.columns(), rows_lib.contexts()
BIGRAM = rows_lib.bigram()
TABLE = BIGRAM.init(jax.random.key(0))
UNIFORM = Recipe("test", allocate.uniform())
AGGREGATES = {
  name: getattr(objective.aggregate, name)
  for name in objective.aggregate.__all__
} | {
  "constant_length": functools.partial(
    objective.aggregate.constant_length, limit=7
  )
}


def loss(fn=objective.ppo_clip, aggregate="token_mean", coefficient=1.0):
  aggregate = AGGREGATES.get(aggregate, aggregate)
  return types.Loss("policy", fn, coefficient, aggregate)


def update(
  rows,
  params=TABLE,
  policy=BIGRAM,
  optimiser=None,
  micro_rows=8,
  seed=0,
  **rules,
):
  """The learner after an update of rows, and its metrics."""
  optimiser = optax.sgd(1.0) if optimiser is None else optimiser
  rules = UNIFORM._replace(**{"losses": (loss(),)} | rules)

  @jax.jit
  def run(learner, rows):
    return train.update(
      rules,
      policy,
      optimiser,
      learner,
      rows,
      CONTEXTS,
      num_groups=rows_lib.P,
      micro_rows=micro_rows,
      temperature=jnp.float32(1),
      key=jax.random.key(seed),
    )

  rows = rows | {"old_logp": old_logp(policy, params, rows)}
  learner, metrics = run(types.Learner(params, optimiser.init(params)), rows)
  return learner, jax.device_get(metrics)


def old_logp(policy, params, rows):
  if rows["tokens"].shape[0] != rows_lib.B:
    return rows["old_logp"]
  return rows_lib.logps(policy, params, rows, CONTEXTS)[0]


def gradient(params, policy, weight):
  """Of sum(weight * logp), by a forward pass written plainly."""

  def total(params):
    logp, _ = rows_lib.logps(policy, params, ROWS, CONTEXTS)
    return jnp.sum(weight * logp)

  return jax.grad(total)(params)


def weights(name):
  """What each token counts for, in numpy: f64[B, T]."""
  mask = np.asarray(ROWS["mask"], np.float64)
  group, lengths = np.asarray(ROWS["group"]), mask.sum(axis=1)
  trained = (lengths > 0).sum()
  if name == "token_mean":
    return mask / mask.sum()
  if name == "sequence_mean":
    return mask / np.maximum(lengths, 1)[:, None] / trained
  if name == "constant_length":
    return mask / 7 / trained
  tokens = np.bincount(group, lengths, minlength=rows_lib.P)
  return mask / np.maximum(tokens, 1)[group][:, None] / (tokens > 0).sum()


@pytest.mark.parametrize("fn", [objective.ppo_clip, objective.reinforce])
def test_the_policy_gradient_of_a_transformer(fn):
  params = tiny.params()
  after, metrics = update(ROWS, params, tiny.POLICY, losses=(loss(fn),))
  scale = weights("token_mean") * np.asarray(ROWS["adv"])[:, None]
  ascent = gradient(params, tiny.POLICY, jnp.asarray(scale, jnp.float32))
  tiny.close(after.params, jax.tree.map(jnp.add, params, ascent), atol=1e-5)
  np.testing.assert_allclose(
    metrics["grad_norm"], optax.global_norm(ascent), rtol=1e-4
  )


@pytest.mark.parametrize("name", sorted(AGGREGATES))
@pytest.mark.parametrize("micro_rows", [4, 8, 12, 32])
def test_micro_batches_change_nothing(name, micro_rows):
  after, metrics = update(
    ROWS, micro_rows=micro_rows, losses=(loss(aggregate=name),)
  )
  scale = weights(name) * np.asarray(ROWS["adv"])[:, None]
  ascent = gradient(TABLE, BIGRAM, jnp.asarray(scale, jnp.float32))
  tiny.close(after.params, jax.tree.map(jnp.add, TABLE, ascent), atol=1e-6)
  # On-policy every ratio is 1 and the loss is minus the mean advantage.
  np.testing.assert_allclose(metrics["loss"], -scale.sum(), rtol=1e-4)


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_a_row_without_trained_tokens_is_not_there(name):
  trained = np.flatnonzero(np.asarray(ROWS["mask"]).any(axis=1))
  full = ROWS | {"old_logp": old_logp(BIGRAM, TABLE, ROWS)}
  short = {column: x[trained] for column, x in full.items()}
  losses = (loss(aggregate=name),)
  with_them, _ = update(ROWS, losses=losses)
  without, _ = update(short, losses=losses)
  tiny.close(with_them, without)


def test_nothing_trained_is_no_optimiser_step():
  empty = ROWS | {"mask": jnp.zeros_like(ROWS["mask"])}
  optimiser = optax.adam(1.0)
  after, metrics = update(empty, optimiser=optimiser)
  before = types.Learner(TABLE, optimiser.init(TABLE))
  assert tiny.same(before, after)
  assert metrics["optimiser_steps"] == metrics["loss"] == 0
  assert all(np.isfinite(x) for x in metrics.values())


def test_coefficients_and_several_losses():
  twice, metrics = update(ROWS, losses=(loss(), loss()._replace(name="again")))
  scaled, _ = update(ROWS, losses=(loss(coefficient=2.0),))
  tiny.close(twice, scaled)
  np.testing.assert_allclose(metrics["loss/policy"], metrics["loss/again"])
  np.testing.assert_allclose(
    metrics["loss"], 2 * metrics["loss/again"], rtol=1e-6
  )


def test_without_trust_the_anchor_is_the_policy_itself():
  anchored, metrics = update(ROWS, trust=())
  plain, _ = update(ROWS)
  tiny.close(anchored, plain)
  assert metrics["kl"] == 0


# --- several optimiser steps


def test_old_log_probs_stay_over_the_epochs():
  """Two steps of SGD on the ratio to the policy before the first."""
  after, metrics = update(ROWS, epochs=2, trust=(trust.unbounded,))
  adv = np.asarray(ROWS["adv"])[:, None] * weights("token_mean")
  old = old_logp(BIGRAM, TABLE, ROWS)
  params = TABLE
  for _ in range(2):
    now = old_logp(BIGRAM, params, ROWS)
    ratio = jnp.exp(now - old)
    ascent = gradient(params, BIGRAM, ratio * jnp.asarray(adv, jnp.float32))
    params = jax.tree.map(jnp.add, params, ascent)
  tiny.close(after.params, params, atol=1e-5)
  assert metrics["optimiser_steps"] == 2


def recorder():
  """An optimiser that moves nothing and adds the gradients up."""

  def init(params):
    zero = jax.tree.map(jnp.zeros_like, params)
    return {"steps": jnp.int32(0), "total": zero, "first": zero}

  def step(grads, state, params=None):
    del params
    start = state["steps"] == 0
    return jax.tree.map(jnp.zeros_like, grads), {
      "steps": state["steps"] + 1,
      "total": jax.tree.map(jnp.add, state["total"], grads),
      "first": jax.tree.map(
        lambda old, new: jnp.where(start, new, old), state["first"], grads
      ),
    }

  return optax.GradientTransformation(init, step)


def by_sum(mask):
  """Weights without a denominator: a minibatch's gradient is its rows'."""
  return mask.astype(jnp.float32)


def recorded(seed=0, rows=ROWS, **rules):
  losses = (loss(aggregate=by_sum),)
  after, metrics = update(
    rows, optimiser=recorder(), seed=seed, losses=losses, **rules
  )
  return after.opt_state, metrics


@pytest.mark.parametrize(
  "epochs, minibatches, micro_rows", [(1, 4, 8), (3, 2, 4), (2, 3, 5)]
)
def test_every_epoch_sees_every_row_once(epochs, minibatches, micro_rows):
  seen, metrics = recorded(
    epochs=epochs, minibatches=minibatches, micro_rows=micro_rows
  )
  whole, _ = recorded()
  expected = jax.tree.map(lambda x: epochs * x, whole["total"])
  tiny.close(seen["total"], expected, atol=1e-4)
  assert seen["steps"] == metrics["optimiser_steps"] == epochs * minibatches


def test_the_order_of_minibatches_comes_from_the_key():
  first, again, other = (
    recorded(seed=seed, minibatches=4)[0]["first"] for seed in (0, 0, 1)
  )
  assert tiny.same(first, again) and not tiny.same(first, other)


def test_minibatches_without_a_trained_row_are_not_taken():
  only = np.zeros((rows_lib.B, 1), bool)
  only[3] = True
  rows = ROWS | {"mask": jnp.asarray(only) & (ROWS["tokens"] >= 0)}
  seen, metrics = recorded(rows=rows, epochs=2, minibatches=4)
  assert seen["steps"] == metrics["optimiser_steps"] == 2
  one, alone = recorded(rows=rows)
  tiny.close(seen["total"], jax.tree.map(lambda x: 2 * x, one["total"]))
  # The means are over the steps that were taken.
  for name in ("loss", "grad_norm"):
    np.testing.assert_allclose(metrics[name], alone[name], rtol=1e-5)


# --- what is reported


def test_metrics_are_means_over_trained_tokens():
  logp, logits = rows_lib.logps(BIGRAM, TABLE, ROWS, CONTEXTS)
  mask = np.asarray(ROWS["mask"])
  carried = np.arange(rows_lib.B) < 16
  gap = np.where(carried[:, None], 5.0, 0.25)
  behaviour = np.asarray(logp) - gap
  behaviour[20, 0] = -np.inf  # off the sampler's support
  rows = ROWS | {
    "behaviour_logp": jnp.asarray(behaviour, jnp.float32),
    "round": jnp.asarray(np.where(carried, -1, 0), jnp.int32),
  }
  _, metrics = update(rows)
  np.testing.assert_allclose(metrics["sampler_gap_max"], 0.25, rtol=1e-5)
  np.testing.assert_allclose(metrics["sampler_gap_mean"], 0.25, rtol=1e-5)
  p = np.asarray(jax.nn.softmax(logits), np.float64)
  entropy = -np.sum(p * np.log(p), axis=-1)[mask].mean()
  np.testing.assert_allclose(metrics["entropy"], entropy, rtol=1e-5)
  assert abs(metrics["kl"]) < 1e-6 and metrics["policy_clipped"] == 0


def test_the_share_of_clipped_tokens():
  def away(old_logp, mask):
    """An anchor from which every ratio is exp(0.5)."""
    return trust.clip(old_logp - 0.5, mask, low=0.2, high=0.2)

  _, metrics = update(ROWS, trust=(away,))
  mask, adv = np.asarray(ROWS["mask"]), np.asarray(ROWS["adv"])
  up = np.broadcast_to(adv[:, None] > 0, mask.shape)
  np.testing.assert_allclose(
    metrics["policy_clipped"], up[mask].mean(), rtol=1e-5
  )
  # k3 at logp - anchor = 0.5: exp(-0.5) - 1 + 0.5.
  np.testing.assert_allclose(metrics["kl"], 0.1065307, rtol=1e-4)


def test_trust_may_ask_for_groups():
  def by_group(old_logp, mask, group, *, num_groups):
    size = numerics.group_sum(group >= 0, group, num_groups, group >= 0)[group]
    made = trust.unbounded(old_logp, mask)
    return made._replace(weight=made.weight / size[:, None])

  after, _ = update(ROWS, trust=(by_group,))
  size = np.bincount(np.asarray(ROWS["group"]))[np.asarray(ROWS["group"])]
  scale = weights("token_mean") * (np.asarray(ROWS["adv"]) / size)[:, None]
  ascent = gradient(TABLE, BIGRAM, jnp.asarray(scale, jnp.float32))
  tiny.close(after.params, jax.tree.map(jnp.add, TABLE, ascent))
