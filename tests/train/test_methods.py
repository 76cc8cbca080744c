"""The chains of a recipe: order, memory, what keep removes from where."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import (
  advantage,
  allocate,
  keep,
  numerics,
  objective,
  reward,
  train,
  types,
)
from jaxroll.recipe import Recipe
from tests.train import tiny

UNIFORM = Recipe("test", allocate.uniform())
KEY = jax.random.key(3)


def worth(**families):
  """`train.value` of two groups of four rows of two tokens."""
  rows = {
    "reward": jnp.array([1, 0, 5, 1, 0, 0, 1, 1], jnp.float32),
    "group": jnp.array([0, 0, 0, 0, 1, 1, 1, 1]),
    "valid": jnp.array([1, 1, 0, 1, 1, 1, 1, 1], bool),
    "stopped": jnp.array([1, 1, 1, 0, 1, 1, 1, 1], bool),
  }
  rows["mask"] = jnp.ones((8, 2), bool) & rows["valid"][:, None]
  specials = {"num_groups": 2, "step": jnp.int32(0), "key": KEY}
  rules = UNIFORM._replace(**{"advantage": (advantage.dr_grpo,)} | families)
  out, _ = train.value(rules, rows, {}, {}, specials)
  return out


def test_rows_without_a_score_leave_the_baseline():
  out = worth()
  expected = [1 / 3, -2 / 3, 0, 1 / 3, -0.5, -0.5, 0.5, 0.5]
  np.testing.assert_allclose(out["adv"], expected, rtol=1e-6)


def test_keep_leaves_the_baseline_and_the_loss():
  out = worth(keep=(keep.stopped,))
  expected = [0.5, -0.5, 0, 0, -0.5, -0.5, 0.5, 0.5]
  np.testing.assert_allclose(out["adv"], expected, rtol=1e-6)
  trained = [True, True, False, False, True, True, True, True]
  np.testing.assert_array_equal(out["mask"].all(axis=1), trained)
  np.testing.assert_array_equal(out["valid"], trained)


def test_a_keep_by_token_leaves_the_row_in_the_baseline():
  def first_token(mask):
    return mask & (jnp.arange(mask.shape[1]) == 0)[None, :]

  out = worth(keep=(first_token,))
  np.testing.assert_array_equal(out["adv"], worth()["adv"])
  np.testing.assert_array_equal(out["mask"][:, 0], out["valid"])
  assert not out["mask"][:, 1].any()


def test_keep_loss_leaves_the_loss_only():
  out = worth(keep_loss=(keep.stopped,))
  np.testing.assert_array_equal(out["adv"], worth()["adv"])
  trained = [True, True, False, False, True, True, True, True]
  np.testing.assert_array_equal(out["mask"].any(axis=1), trained)

  def first_token(mask):
    return jnp.arange(2)[None, :] < jnp.ones_like(mask[:, :1], int)

  by_token = worth(keep_loss=(first_token,))
  np.testing.assert_array_equal(
    by_token["mask"][:, 0], [1, 1, 0, 1, 1, 1, 1, 1]
  )
  assert not by_token["mask"][:, 1].any()


def test_all_of_a_chain_must_keep_a_row():
  out = worth(keep=(keep.stopped, keep.mixed))
  trained = [True, True, False, False, True, True, True, True]
  np.testing.assert_array_equal(out["valid"], trained)

  def first(group):
    return jnp.arange(group.shape[0]) < 2

  out = worth(keep=(first, keep.mixed))  # group 1 has no row left
  np.testing.assert_array_equal(out["valid"], [1, 1, 0, 0, 0, 0, 0, 0])


def test_rewards_are_shaped_in_order_before_the_advantage():
  def double(reward):
    return 2 * reward

  def add(reward):
    return reward + 10

  out = worth(reward=(double, add))
  np.testing.assert_array_equal(out["reward"][:2], [12, 10])
  np.testing.assert_allclose(out["adv"][4:], [-1, -1, 1, 1], rtol=1e-6)


def test_transforms_see_the_kept_tokens_and_the_advantage():
  def by_token(adv, mask):
    return jnp.where(mask, 2 * adv[:, None], 7.0)

  chain = (advantage.dr_grpo, by_token)
  out = worth(keep=(keep.stopped,), advantage=chain)
  expected = [1, -1, 7, 7, -1, -1, 1, 1]
  np.testing.assert_allclose(out["adv"], np.tile(expected, (2, 1)).T, rtol=1e-6)


def test_functions_draw_different_numbers():
  def noise(reward, *, key):
    return reward + jax.random.normal(key, reward.shape)

  one = worth(reward=(noise,))["reward"] - worth()["reward"]
  two = worth(reward=(noise, noise))["reward"] - worth()["reward"]
  assert np.abs(two - 2 * one).min() > 1e-3


# --- a recipe with memories, a reference and two losses, in a whole step


def _round_robin():
  """Selects the pool in order; counts the rows it was shown.

  From its second step on it leaves the last place empty.
  """

  def init(sizes, *, key):
    del sizes, key
    return {"at": jnp.int32(0), "rows": jnp.int32(0), "last": jnp.int32(0)}

  def apply(state, pool, *, num):
    ids = pool[(state["at"] + jnp.arange(num)) % pool.shape[0]]
    empty = (state["at"] > 0) & (jnp.arange(num) == num - 1)
    return jnp.where(empty, -1, ids), state | {"at": state["at"] + num}

  def update(state, ids, valid, *, step):
    rows = jnp.sum(valid, dtype=jnp.int32)
    return state | {"rows": state["rows"] + rows * (step + 1), "last": ids[0]}

  return types.Method(init, apply, update)


def _moving_baseline():
  """Reward minus a moving mean of all rewards."""

  def init(sizes, *, key):
    del sizes, key
    return jnp.float32(0.25)

  def apply(state, reward, valid):
    return jnp.where(valid, reward - state, 0.0), state

  def update(state, reward, valid):
    return 0.5 * state + 0.5 * numerics.masked_mean(reward, valid)

  return types.Method(init, apply, update)


@pytest.fixture(scope="module")
def remembered():
  """Two steps: states and outputs."""
  mean = objective.aggregate.token_mean
  rules = UNIFORM._replace(
    select=(_round_robin(),),
    reward=(functools.partial(reward.kl_penalty, coefficient=0.5),),
    advantage=(_moving_baseline(),),
    losses=(
      types.Loss("policy", objective.ppo_clip, 1.0, mean),
      types.Loss("kl", objective.kl, 0.1, mean),
    ),
    reference=True,
  )
  step = jax.jit(tiny.fused(rules))
  states, outputs = [tiny.state(rules)], []
  for _ in range(2):
    state, output = step(states[-1], tiny.TASK.data, tiny.SETTINGS)
    states.append(state)
    outputs.append(jax.device_get(output))
  assert step._cache_size() == 1
  return states, outputs


def test_a_selection_with_a_memory(remembered):
  states, outputs = remembered
  for number, output in enumerate(outputs):
    pool = tiny.TASK.train_pool[8 * number : 8 * number + 8].copy()
    pool[7] = pool[7] if number == 0 else -1
    np.testing.assert_array_equal(output.prompts.id, pool)
  memory = [state.methods["select.0"] for state in states]
  assert [int(m["at"]) for m in memory] == [0, 8, 16]
  assert [int(m["rows"]) for m in memory] == [0, 32, 32 + 2 * 28]
  assert int(memory[2]["last"]) == outputs[1].prompts.id[0]


def test_an_empty_place_gets_no_rows(remembered):
  states, outputs = remembered
  assert outputs[1].counts.tolist() == 7 * [4] + [0]
  assert outputs[1].metrics["rollouts"] == outputs[1].rollouts.valid.sum() == 28
  assert outputs[1].metrics["prompts"] == 7
  seen = np.asarray(states[2].stats.alpha + states[2].stats.beta) - 2
  expected = np.zeros(tiny.SIZES.num_ids)
  expected[tiny.TASK.train_pool[:15]] = 4
  np.testing.assert_array_equal(seen, expected)


def test_a_baseline_with_a_memory_sees_the_shaped_reward(remembered):
  states, outputs = remembered
  start, first, second = (s.methods["advantage.0"] for s in states)
  raw = [o.outcome.reward[o.rollouts.valid].mean() for o in outputs]
  assert float(start) == 0.25
  # At the first step the policy is the reference: no penalty yet.
  np.testing.assert_allclose(first, 0.125 + 0.5 * raw[0], rtol=1e-4)
  penalty = float(0.5 * first + 0.5 * raw[1] - second)
  assert 1e-4 < penalty < 0.2
  # The posterior and the reported reward are of the verifier's.
  np.testing.assert_allclose(
    [o.metrics["reward"] for o in outputs], raw, rtol=1e-6
  )
  shown = states[2].stats.alpha - states[0].stats.alpha
  right = 32 * raw[0] + 28 * raw[1]
  np.testing.assert_allclose(shown.sum(), right, rtol=1e-5)


def test_the_divergence_from_the_reference(remembered):
  states, outputs = remembered
  first, second = (output.metrics for output in outputs)
  assert 0 <= first["loss/kl"] < 1e-8 < 1e-5 < second["loss/kl"]
  np.testing.assert_allclose(
    second["loss"],
    second["loss/policy"] + 0.1 * second["loss/kl"],
    rtol=1e-5,
  )
  assert tiny.same(states[0].frozen, states[2].frozen)
  assert tiny.same(
    states[0].frozen["reference"], states[0].learners["policy"].params
  )
