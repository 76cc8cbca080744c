"""The rollout bandit: what it is paid for, learns from, and chooses."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import keep
from jaxroll.keep import _cbs
from jaxroll.types import Sizes
from tests import contracts

SIZES = Sizes(40, contracts.GROUPS, contracts.ROWS, 5, contracts.TOKENS)
KEY = jax.random.key(0)
QUIET = {"explore": 0.0, "explore_final": 0.0}


def batch(seed=0, **columns):
  sample = contracts.sample(seed)
  place = [0, 0, 0, 1, 0, 1, 0, 1, 2, 1, 2, 2, 1, 3, 2, 3]
  extra = {
    "index": jnp.array(place, jnp.int32),
    "round": jnp.zeros(contracts.ROWS, jnp.int32),
  }
  return sample | extra | columns


def stepper(method):
  """(state, batch, step, key) -> kept, state; compiled once."""

  def call(state, rows, step, key):
    names = ("reward", "adv", "length", "stopped", "entropy")
    names += ("behaviour_logp", "round", "group", "index", "mask")
    return method.apply(
      state,
      *(rows[name] for name in names),
      num_groups=contracts.GROUPS,
      valid=rows["valid"],
      step=jnp.int32(step),
      key=key,
    )

  return jax.jit(call)


METHOD = keep.cbs(k=2, **QUIET)
CALL = stepper(METHOD)
START = METHOD.init(SIZES, key=KEY)


# --- the numbers


def test_arm_reward():
  # 0.05 - 0.5 * 0.06
  paid = _cbs.arm_reward(0.42, 0.47, 0.60, 0.66, 0.5, 0.5)
  assert float(paid) == pytest.approx(0.02, abs=1e-7)


def test_arm_reward_is_not_penalised_at_the_floor():
  paid = _cbs.arm_reward(0.42, 0.47, 0.60, 0.66, 0.5, 0.60)
  assert float(paid) == pytest.approx(0.05, abs=1e-7)


def test_arm_reward_pays_for_falling_entropy():
  paid = _cbs.arm_reward(0.42, 0.42, 0.66, 0.60, 0.5, 0.5)
  assert float(paid) == pytest.approx(0.03, abs=1e-7)


def test_subset_loss():
  score, chosen = jnp.array([1.0, 3.0, 9.0]), jnp.array([True, True, False])
  assert float(_cbs.subset_loss(score, chosen, 1.5)) == 0.25
  assert float(_cbs.subset_loss(score, jnp.zeros(3, bool), 1.5)) == 0.0


def test_the_best_of_a_group_with_ties_to_the_lower_index():
  score, four = jnp.array([0.2, 0.9, 0.9, -0.1]), jnp.arange(4)
  rank = _cbs.place(jnp.zeros(4, jnp.int32), 1, four >= 0, score, -four)
  assert jnp.flatnonzero(rank < 2).tolist() == [1, 2]


def test_contexts_are_standardised_over_valid_rows():
  rows = batch()
  columns = tuple(rows["entropy"].T) + (rows["reward"], rows["length"])
  columns = (rows["reward"].at[0].set(jnp.nan), *columns[1:])
  x = np.asarray(
    _cbs.describe(columns, rows["group"], contracts.GROUPS, rows["valid"])
  )
  valid = np.asarray(rows["valid"])
  assert x.shape == (contracts.ROWS, 10) and np.isfinite(x).all()
  assert (x[~valid] == 0).all() and x[0, 0] == 0
  np.testing.assert_allclose(x[valid][:, 1:7].mean(0), 0, atol=1e-6)
  np.testing.assert_allclose(x[valid][:, 1:7].std(0), 1, atol=1e-5)


# --- a step after the other


def test_keeps_the_k_best_of_each_group():
  kept, state = CALL(START, batch(), 0, KEY)
  rows = batch()
  for group in range(contracts.GROUPS):
    own = (rows["group"] == group) & rows["valid"]
    assert int((kept & own).sum()) == min(2, int(own.sum()))
  assert not (kept & ~rows["valid"]).any()
  assert int(state.last_chosen.sum()) == int(kept.sum())


def test_learns_nothing_from_the_first_step():
  _, state = CALL(START, batch(), 0, KEY)
  assert int(state.count) == 0
  jax.tree.map(np.testing.assert_array_equal, state.params, START.params)


def test_a_choice_is_paid_by_the_next_step_and_not_by_its_own():
  first, second = batch(), batch(1, entropy=batch()["entropy"] + 0.1)
  _, after = CALL(START, first, 0, KEY)
  _, state = CALL(after, second, 1, KEY)
  valid = np.asarray(first["valid"])
  rise = np.mean(np.asarray(second["reward"])[valid]) - np.mean(
    np.asarray(first["reward"])[valid]
  )
  # The first step's entropy is the floor: no penalty for it.
  assert int(state.count) == 1
  np.testing.assert_allclose(state.reward[0], rise, rtol=1e-5)
  np.testing.assert_array_equal(state.features[0], after.last_features)
  np.testing.assert_array_equal(state.chosen[0], after.last_chosen)


def test_update_leaves_the_state():
  assert METHOD.update(START) is START


def test_the_state_keeps_its_types():
  """Or a restored run would trace again."""
  _, state = CALL(START, batch(), 0, KEY)

  def form(tree):
    return [(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(tree)]

  assert form(state) == form(START)


def test_a_step_without_rows_is_passed_over():
  nobody = batch(valid=jnp.zeros(contracts.ROWS, bool))
  kept, state = CALL(START, nobody, 0, KEY)
  assert not kept.any() and not state.started
  _, state = CALL(CALL(START, batch(), 0, KEY)[1], nobody, 1, KEY)
  assert int(state.count) == 0
  _, state = CALL(state, batch(), 2, KEY)
  assert int(state.count) == 0


def test_carried_rows_say_nothing_about_the_step():
  rows = batch()
  carried = batch(
    round=rows["round"].at[0].set(-1), reward=rows["reward"].at[0].set(99.0)
  )
  _, state = CALL(START, carried, 0, KEY)
  fresh = np.asarray(rows["valid"]).copy()
  fresh[0] = False
  expected = np.asarray(rows["reward"])[fresh].mean()
  np.testing.assert_allclose(state.value, expected, rtol=1e-5)


def test_memory_is_a_ring():
  method = keep.cbs(k=2, memory=2, **QUIET)
  call, state = stepper(method), method.init(SIZES, key=KEY)
  for step in range(5):
    _, state = call(state, batch(step), step, KEY)
  assert int(state.count) == 4
  assert state.reward.shape == (2,) and (state.reward != 0).all()


def test_learns_to_keep_what_raises_the_reward():
  """The reward rises where rows of low entropy were chosen."""
  method = keep.cbs(
    k=2,
    learning_rate=1e-2,
    entropy_weight=0.0,
    explore=1.0,
    explore_final=0.0,
    explore_steps=60,
  )
  call, state = stepper(method), method.init(SIZES, key=KEY)
  level, shares = 0.0, []
  for step in range(160):
    rng = np.random.default_rng(step)
    noisy = rng.random(contracts.ROWS) < 0.5
    entropy = jnp.asarray(np.tile(noisy[:, None], (1, 5)), jnp.float32)
    reward = jnp.asarray(level + 1e-3 * rng.normal(size=16), jnp.float32)
    rows = batch(
      entropy=entropy,
      reward=reward,
      mask=jnp.ones((16, 5), bool),
      valid=jnp.ones(16, bool),
    )
    kept, state = call(state, rows, step, jax.random.fold_in(KEY, step))
    share = float(np.mean(noisy[np.asarray(kept)]))
    level = level + 0.5 - share
    shares.append(share)
  assert np.mean(shares[-30:]) < 0.35 < 0.42 < np.mean(shares[:20])


def test_explores_by_chance():
  method = keep.cbs(k=2, explore=1.0, explore_final=0.0, explore_steps=10)
  call, state = stepper(method), method.init(SIZES, key=KEY)
  keys = jax.random.split(jax.random.key(1), 4)
  early = [call(state, batch(), 0, key)[0].tolist() for key in keys]
  late = [call(state, batch(), 10, key)[0].tolist() for key in keys]
  assert len(set(map(tuple, early))) > 1
  assert len(set(map(tuple, late))) == 1


# --- the family's contract, with the state that it starts with


@pytest.mark.parametrize(
  "check",
  [
    contracts.check_jit_equals_eager,
    contracts.check_finite,
    contracts.check_garbage_unread,
    contracts.check_row_order,
    contracts.check_group_names,
    contracts.check_sharding,
  ],
)
def test_contract(check):
  case = contracts.Case(hyper={"key": KEY, "step": jnp.int32(3)})
  fn = functools.partial(METHOD.apply, START)
  bound = contracts.bind(fn, case)
  kept = bound._replace(call=lambda rows: bound.call(rows)[0])
  check(kept, batch())


@pytest.mark.parametrize(
  "hyper",
  [{"k": 0}, {"steps": 0}, {"learning_rate": 0}, {"entropy_weight": -1}]
  + [{"explore": 2}, {"explore_final": -1}, {"memory": 0}],
)
def test_refuses(hyper):
  (name,) = hyper
  with pytest.raises(ValueError, match=f"{name}="):
    keep.cbs(**hyper)
