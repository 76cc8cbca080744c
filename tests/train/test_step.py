"""A step under every recipe: rows, evidence, carried rows, compilations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import train, types
from tests.train import tiny

NAMES = sorted(tiny.RECIPES)
# Posterior decays of the recipes that have them.
DECAYS = {"vade": {"local": 0.5, "decay": 0.999}}


def new(output):
  return output.rollouts.valid & (output.rollouts.round >= 0)


def carried(output):
  return output.rollouts.valid & (output.rollouts.round < 0)


@pytest.mark.parametrize("name", NAMES)
def test_one_compilation_whatever_is_allocated(name):
  run = tiny.run(name)
  assert run.compilations == 1
  counts = {tuple(output.counts) for output in run.outputs}
  assert len(counts) == 1 if name in ("uniform", "vade") else len(counts) > 1


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_that_were_allocated(name):
  for output in tiny.run(name).outputs:
    rows, metrics = output.rollouts, output.metrics
    here = new(output)
    assert output.counts.sum() == here.sum() == metrics["rollouts"]
    assert output.counts.sum() <= tiny.SIZES.rows
    np.testing.assert_array_equal(
      np.bincount(rows.group[here], minlength=8), output.counts
    )
    for group in range(tiny.SIZES.prompts):
      # Carried rows hold the first indices, so that no two rows share a key.
      index = np.sort(rows.index[rows.valid & (rows.group == group)])
      np.testing.assert_array_equal(index, np.arange(len(index)))
    assert metrics["generated_tokens"] == rows.length[here].sum()
    assert metrics["most_rows_a_prompt"] == output.counts.max()


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_distinct_and_from_the_pool(name):
  for output in tiny.run(name).outputs:
    ids = output.prompts.id
    assert len(set(ids.tolist())) == len(ids)
    assert np.isin(ids, tiny.TASK.train_pool).all()


@pytest.mark.parametrize("name", NAMES)
def test_posterior_counts_the_rows_of_each_step_once(name):
  run = tiny.run(name)
  factors = DECAYS.get(name, {"local": 1.0, "decay": 1.0})
  success, failure = np.zeros(40), np.zeros(40)
  for before, after, output in zip(run.states, run.states[1:], run.outputs):
    ids, here = output.prompts.id, new(output)
    shown = (1 + success) / (2 + success + failure)
    np.testing.assert_allclose(output.solve_rate, shown[ids], rtol=1e-5)
    count, right = np.zeros(40), np.zeros(40)
    prompt = ids[output.rollouts.group]
    np.add.at(count, prompt[here], 1)
    np.add.at(right, prompt[here], output.outcome.reward[here])
    kept = factors["decay"] * np.where(count > 0, factors["local"], 1.0)
    success = kept * success + right
    failure = kept * failure + count - right
    np.testing.assert_allclose(after.stats.alpha, 1 + success, rtol=1e-5)
    np.testing.assert_allclose(after.stats.beta, 1 + failure, rtol=1e-5)
    rolled = np.flatnonzero(count > 0)
    assert (after.stats.seen[rolled] == before.step).all()


@pytest.mark.parametrize("name", ["pilot_commit", "pilot_commit+vade"])
def test_carried_rows_are_those_of_the_step_before(name):
  run, found = tiny.run(name), 0
  known = {}
  for step, output in enumerate(run.outputs):
    rows = output.rollouts
    ids = output.prompts.id[rows.group]
    for row in np.flatnonzero(carried(output)):
      tokens, logp, reward = known[ids[row], rows.born[row], rows.index[row]]
      np.testing.assert_array_equal(rows.tokens[row], tokens)
      np.testing.assert_array_equal(rows.behaviour_logp[row], logp)
      assert output.outcome.reward[row] == reward and rows.born[row] < step
      found += 1
    for row in np.flatnonzero(new(output)):
      known[ids[row], rows.born[row], rows.index[row]] = (
        rows.tokens[row],
        rows.behaviour_logp[row],
        output.outcome.reward[row],
      )
  assert found > 4


@pytest.mark.parametrize("name", ["pilot_commit", "pilot_commit+vade"])
def test_only_completed_groups_are_trained(name):
  run = tiny.run(name)
  for output in run.outputs:
    rows = output.rollouts
    complete = np.isin(rows.group, rows.group[carried(output)]) & rows.valid
    assert output.metrics["trained_rollouts"] == complete.sum()
    assert output.metrics["trained_tokens"] == rows.length[complete].sum()
    assert np.bincount(rows.group[complete]).max(initial=8) == 8  # 2 + 6


@pytest.mark.parametrize("name", NAMES)
def test_a_step_without_trained_rows_is_no_optimiser_step(name):
  run = tiny.run(name)
  trained = [o.metrics["trained_tokens"] > 0 for o in run.outputs]
  assert trained.count(False) == name.startswith("pilot_commit")  # the first
  for step, some in enumerate(trained):
    before, after = (run.states[step + i].learners["policy"] for i in (0, 1))
    assert run.outputs[step].metrics["optimiser_steps"] == some
    assert tiny.same(before.opt_state, after.opt_state) != some
    assert tiny.same(before.params, after.params) != some


@pytest.mark.parametrize("name", NAMES)
def test_the_state_keeps_its_types(name):
  """A restored or donated state must not compile the step anew."""
  run = tiny.run(name)
  first, last = (jax.tree.map(jax.typeof, run.states[i]) for i in (0, -1))
  assert first == last
  assert not any(leaf.weak_type for leaf in jax.tree.leaves(first))
  assert int(run.states[-1].step) == 4
  assert (run.states[-1].key == run.states[0].key).all()


def test_the_step_takes_over_the_memory_of_its_state():
  run = tiny.run("uniform")
  given = tiny.copy(run.states[0])
  run.step(given, tiny.TASK.data, tiny.SETTINGS)
  kept = {"key"}  # returned as it is
  for path, leaf in jax.tree_util.tree_leaves_with_path(given):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    assert leaf.is_deleted() or name in kept, name


def test_sampler_and_trainer_agree():
  for name in NAMES:
    for output in tiny.run(name).outputs:
      assert output.metrics["sampler_gap_max"] < 2e-5


def test_a_verifier_on_the_host_changes_nothing():
  rules = tiny.RECIPES["vigor"](tiny.SIZES)
  step = train.hosted(tiny.make(rules, task=tiny.HOST_TASK), tiny.HOST_TASK)
  run, state = tiny.run("vigor"), tiny.state(rules)
  for expected, output in zip(run.states[1:3], run.outputs):
    state, hosted = step(state, tiny.TASK.data, tiny.SETTINGS)
    np.testing.assert_array_equal(hosted.counts, output.counts)
    np.testing.assert_array_equal(
      hosted.rollouts.tokens, output.rollouts.tokens
    )
    assert tiny.same(state.stats, expected.stats)
    tiny.close(state.learners, expected.learners)
  with pytest.raises(ValueError, match="on the host: use train.hosted"):
    train.fused(tiny.make(rules, task=tiny.HOST_TASK), tiny.HOST_TASK)


# --- other data and settings through the step that is compiled already


def one_step(kind=tiny.PARITY, settings=tiny.SETTINGS, before=None):
  run = tiny.run("uniform")
  before = run.states[0] if before is None else before
  after, output = run.step(tiny.copy(before), tiny.data(kind), settings)
  assert run.compilations == 1
  return before, after, jax.device_get(output)


def learner(state):
  return state.learners["policy"]


def test_unscorable_rows_leave_everything():
  before, after, output = one_step(tiny.SOME_UNSCORABLE)
  rows, scored = output.rollouts, output.outcome.status == types.SCORED
  assert output.metrics["unscorable"] == (~scored).sum() == 8
  assert output.metrics["trained_rollouts"] == 24
  assert output.metrics["trained_tokens"] == rows.length[scored].sum()
  np.testing.assert_allclose(
    output.metrics["reward"], output.outcome.reward[scored].mean(), rtol=1e-6
  )
  evidence = after.stats.alpha + after.stats.beta - 2
  assert float(evidence.sum()) == 24
  assert np.isfinite(output.metrics["loss"])
  assert not tiny.same(learner(before).params, learner(after).params)


def test_tied_groups_have_no_gradient():
  _, _, output = one_step(tiny.TIED)
  assert output.metrics["zero_variance_share"] == 1
  assert output.metrics["mixed_rollout_share"] == 0
  assert output.metrics["grad_norm"] == 0


def test_nothing_scored_is_an_empty_step():
  before, after, output = one_step(tiny.UNSCORABLE)
  assert tiny.same(learner(before), learner(after))
  assert tiny.same(before.stats, after.stats)
  assert int(after.step) == 1
  for name in ("optimiser_steps", "trained_tokens", "loss", "reward"):
    assert output.metrics[name] == 0, name
  assert output.metrics["unscorable"] == output.metrics["rollouts"] == 32


def test_gradients_that_are_no_numbers_are_skipped_and_counted():
  before, after, output = one_step(tiny.HUGE)
  assert output.metrics["skipped_nonfinite"] == 1
  assert tiny.same(learner(before).params, learner(after).params)
  _, later, output = one_step(before=after)
  assert output.metrics["skipped_nonfinite"] == 1
  assert not tiny.same(learner(after).params, learner(later).params)


def test_a_scored_reward_that_is_no_number_is_unscorable():
  _, after, output = one_step(tiny.NAN)
  assert output.metrics["unscorable"] == 8  # the third row of each prompt
  assert output.metrics["trained_rollouts"] == 24
  assert output.metrics["skipped_nonfinite"] == 0
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(after.stats))


def test_everything_truncated():
  never = tiny.SETTINGS._replace(
    stops=tiny.SETTINGS.stops._replace(tokens=jnp.array([999], jnp.int32))
  )
  _, _, output = one_step(settings=never)
  assert output.metrics["truncated_share"] == 1
  assert (output.rollouts.length == 6).all()
  assert np.isfinite(output.metrics["loss"])


def test_limits_and_temperature_compile_nothing():
  short = tiny.SETTINGS._replace(limit=jnp.int32(2))
  _, _, output = one_step(settings=short)
  assert output.rollouts.length.max() == 2
  greedy = tiny.SETTINGS.sampler.replace(temperature=jnp.float32(0))
  _, _, output = one_step(settings=tiny.SETTINGS._replace(sampler=greedy))
  tokens = output.rollouts.tokens.reshape(8, 4, 6)
  np.testing.assert_array_equal(tokens, tokens[:, :1].repeat(4, axis=1))
