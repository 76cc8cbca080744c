"""A whole training step whose rows are allocated at the slot."""

import functools

import jax
import numpy as np
import pytest

from jaxroll import allocate, parallel, recipes, train, types
from tests.train import tiny

NAMES = ("slot_elimination", "slot_mixed", "slot_variance")
SLOTS = 16


@functools.cache
def run(name, steps=2):
  """States and outputs of a recipe on the tiny task."""
  rules = getattr(recipes, name)(tiny.SIZES)
  step = jax.jit(train.fused(tiny.make(rules, slots=SLOTS), tiny.TASK))
  states, outputs = [tiny.state(rules)], []
  for _ in range(steps):
    after, output = step(states[-1], tiny.TASK.data, tiny.SETTINGS)
    states.append(after)
    outputs.append(jax.device_get(output))
  return step, states, outputs


@pytest.mark.parametrize("name", NAMES)
def test_rows_rewards_and_beliefs_agree(name):
  step, states, outputs = run(name)
  assert step._cache_size() == 1
  for before, after, output in zip(states, states[1:], outputs):
    rows, status = output.rollouts, output.outcome.status
    np.testing.assert_array_equal(
      np.bincount(rows.group[rows.valid], minlength=8), output.counts
    )
    assert output.counts.min() >= 2 and (rows.round == 0).all()
    total = output.counts.sum()
    assert total <= 32 if name == "slot_elimination" else total == 32
    scored = rows.valid & (status == types.SCORED)
    # What the loop was told is what the verifier says of the finished rows.
    again = tiny.TASK.verify(output.prompts, rows)
    np.testing.assert_array_equal(
      output.outcome.reward[scored], np.asarray(again.reward)[scored]
    )
    metrics = output.metrics
    assert metrics["rollouts"] == total
    assert metrics["aborted"] == (rows.valid & ~scored).sum()
    assert metrics["trained_rollouts"] == scored.sum()
    assert metrics["trained_tokens"] == rows.length[scored].sum()
    assert metrics["generated_tokens"] == rows.length[rows.valid].sum()
    # Cancelled rows are no evidence.
    believed = (after.stats.alpha + after.stats.beta) - (
      before.stats.alpha + before.stats.beta
    )
    np.testing.assert_allclose(
      np.asarray(believed)[output.prompts.id],
      np.bincount(rows.group[scored], minlength=8),
      rtol=1e-5,
    )
    assert metrics["sampler_gap_max"] < 2e-5
  assert not tiny.same(states[0].learners, states[-1].learners)


def test_decided_prompts_are_cancelled():
  _, _, outputs = run("slot_elimination")
  for output in outputs:
    rows = output.rollouts
    status = output.outcome.status
    cut = rows.valid & (status == types.ABORTED)
    for row in np.flatnonzero(cut):
      mine = rows.valid & (rows.group == rows.group[row])
      rewards = output.outcome.reward[mine & (status == types.SCORED)]
      assert set(rewards.tolist()) == {0.0, 1.0}
  assert sum(int(o.metrics["aborted"]) for o in outputs) > 0


def test_steps_are_reproducible():
  step, states, outputs = run("slot_mixed")
  after, output = step(states[1], tiny.TASK.data, tiny.SETTINGS)
  assert tiny.same(jax.device_get(output), outputs[1])
  assert tiny.same(after.learners, states[2].learners)


@pytest.mark.parametrize(
  "kind, unscorable", [(tiny.UNSCORABLE, True), (tiny.NAN, False)]
)
def test_rows_that_cannot_be_scored(kind, unscorable):
  step, states, _ = run("slot_mixed")
  after, output = step(states[0], tiny.data(kind), tiny.SETTINGS)
  assert step._cache_size() == 1
  rows = output.rollouts
  third = rows.index[rows.valid] == 2
  expected = rows.valid.sum() if unscorable else third.sum()
  assert output.metrics["unscorable"] == expected > 0
  assert output.counts.sum() == 32
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(after.stats))


def test_on_a_mesh_each_shard_spends_its_share():
  rules = recipes.slot_mixed(tiny.SIZES)
  mesh = parallel.make_mesh(2, 2, 2)
  step = jax.jit(
    train.fused(tiny.make(rules, slots=SLOTS, mesh=mesh), tiny.TASK)
  )
  state = tiny.state(rules)
  state = jax.device_put(state, parallel.shardings(state, mesh))
  after, output = step(state, tiny.TASK.data, tiny.SETTINGS)
  output = jax.device_get(output)
  # 8 prompts and 32 rows over 4 shards.
  shares = output.counts.reshape(4, 2).sum(axis=1)
  assert shares.tolist() == [8, 8, 8, 8]
  group = output.rollouts.group.reshape(4, 8)
  np.testing.assert_array_equal(group // 2, np.arange(4)[:, None] + 0 * group)
  assert output.metrics["sampler_gap_max"] < 2e-5
  again, _ = step(jax.block_until_ready(after), tiny.TASK.data, tiny.SETTINGS)
  assert step._cache_size() == 1 and int(again.step) == 2


def test_a_host_verifier_is_refused():
  rules = recipes.slot_mixed(tiny.SIZES)
  with pytest.raises(ValueError, match="verifies on the host.*jittable"):
    tiny.make(rules, task=tiny.HOST_TASK)
  with pytest.raises(ValueError, match="use train.fused"):
    train.hosted(tiny.make(rules), tiny.TASK)


def test_rules_that_do_not_fit_the_loop_are_refused():
  plain = recipes.slot_mixed(tiny.SIZES)
  two = allocate.slot_mixed()._replace(rounds=lambda budget, num: (16, 16))
  with pytest.raises(ValueError, match="one round"):
    tiny.make(plain._replace(allocate=two))
  drawn = allocate.slot_mixed()._replace(gain=lambda counts, *, key: counts)
  with pytest.raises(ValueError, match="asks for key"):
    tiny.make(plain._replace(allocate=drawn))
