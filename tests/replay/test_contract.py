"""What every replay method promises."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroll import replay
from jaxroll.types import SCORED
from tests.replay import steps
from tests.replay.cases import CASES, SIZES

NAMES = sorted(replay.__all__)
STEPS = 12


def _run(case, resume, add, seed=0):
  """States after each half step, with what was resumed and put in."""
  rng = np.random.default_rng(seed)
  state = case.replay.init(SIZES, key=jax.random.key(0))
  for step in range(STEPS):
    before = state
    ids, rollouts, outcome, state = resume(state, step=jnp.int32(step))
    blocked = case.replay.blocked(state)
    batch = steps.fill_step(
      rng, case, SIZES, step, ids, blocked, (rollouts, outcome)
    )
    resumed, state = state, add(state, *batch, step=jnp.int32(step))
    yield step, before, (ids, rollouts, outcome), resumed, batch, state


def _jitted(case):
  return jax.jit(case.replay.resume), jax.jit(case.replay.add)


def _shapes(tree):
  leaf = lambda x: (x.shape, x.dtype, x.weak_type)  # noqa: E731
  return jax.tree.map(leaf, tree)


def test_every_method_has_a_case():
  assert sorted(CASES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_state_is_static_and_nothing_recompiles(name):
  case = CASES[name]
  resume, add = _jitted(case)
  groups, rows = case.replay.waiting(SIZES)
  assert (groups, rows) == (case.groups, case.groups * case.pilot)
  total = 0
  for _, before, (ids, rollouts, outcome), resumed, _, after in _run(
    case, resume, add
  ):
    assert _shapes(before) == _shapes(resumed) == _shapes(after)
    assert ids.shape == (groups,) and ids.dtype == jnp.int32
    assert rollouts.tokens.shape == (rows, SIZES.response_length)
    assert outcome.reward.shape == (rows,)
    total += int((ids >= 0).sum())
  assert total >= 6
  assert resume._cache_size() == add._cache_size() == 1


@pytest.mark.parametrize("name", NAMES)
def test_jit_equals_eager(name):
  case = CASES[name]
  pairs = zip(
    _run(case, *_jitted(case)), _run(case, case.replay.resume, case.replay.add)
  )
  for jitted, eager in itertools.islice(pairs, 3):
    jax.tree.map(np.testing.assert_array_equal, jitted[2:], eager[2:])


@pytest.mark.parametrize("name", NAMES)
def test_resumed_rows_are_those_that_were_added(name):
  case = CASES[name]
  seen = {}
  for step, _, (ids, rollouts, outcome), _, batch, _ in _run(
    case, *_jitted(case)
  ):
    group = np.repeat(np.arange(case.groups), case.pilot)
    np.testing.assert_array_equal(rollouts.group, group)
    np.testing.assert_array_equal(rollouts.context, group)
    assert (np.asarray(rollouts.round) == -1).all()
    row_ids = np.asarray(ids)[group]
    np.testing.assert_array_equal(rollouts.valid, row_ids >= 0)
    assert not (np.asarray(outcome.status) == SCORED)[row_ids < 0].any()
    for row in np.flatnonzero(row_ids >= 0):
      born, index = int(rollouts.born[row]), int(rollouts.index[row])
      assert born < step
      tokens = steps.tokens_of(row_ids[row], born, index)
      np.testing.assert_array_equal(rollouts.tokens[row], tokens)
      score = (float(outcome.reward[row]), int(outcome.status[row]))
      assert seen[tuple(tokens)] == score
    rows = np.flatnonzero(batch[1].valid)
    for row in rows:
      score = (float(batch[2].reward[row]), int(batch[2].status[row]))
      seen[tuple(np.asarray(batch[1].tokens[row]))] = score


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_group_is_gone_and_blocked_in_its_step(name):
  case = CASES[name]
  for step, _, (ids, *_), resumed, _, _ in _run(case, *_jitted(case)):
    given = [int(i) for i in ids if i >= 0]
    assert len(set(given)) == len(given)
    assert np.asarray(case.replay.blocked(resumed))[given].all()
    again, *_ = case.replay.resume(resumed, step=step)
    assert not set(given) & set(again.tolist())


@pytest.mark.parametrize("name", NAMES)
def test_garbage_in_invalid_rows_changes_nothing(name):
  case = CASES[name]
  add = jax.jit(case.replay.add)
  for step, _, _, resumed, batch, after in _run(case, *_jitted(case)):
    prompts, rollouts, outcome, waiting = batch
    bad = ~rollouts.valid
    assert bad.any()
    wide = bad[:, None]
    rollouts = rollouts.replace(
      group=jnp.where(bad, 1, rollouts.group),
      tokens=jnp.where(wide, -7, rollouts.tokens),
      entropy=jnp.where(wide, jnp.nan, rollouts.entropy),
    )
    outcome = outcome.replace(
      reward=jnp.where(bad, jnp.nan, outcome.reward),
      status=jnp.where(bad, SCORED, outcome.status),
    )
    garbled = add(
      resumed, prompts, rollouts, outcome, waiting, step=jnp.int32(step)
    )
    jax.tree.map(np.testing.assert_array_equal, garbled, after)


@pytest.mark.parametrize("name", NAMES)
def test_order_of_the_rows_does_not_matter(name):
  case = CASES[name]
  add = jax.jit(case.replay.add)
  rng = np.random.default_rng(1)
  for step, _, _, resumed, batch, after in _run(case, *_jitted(case)):
    prompts, rollouts, outcome, waiting = batch
    order = rng.permutation(rollouts.group.shape[0])
    rows = jax.tree.map(lambda x: x[order], (rollouts, outcome))  # noqa: B023
    permuted = add(resumed, prompts, *rows, waiting, step=jnp.int32(step))
    jax.tree.map(np.testing.assert_array_equal, permuted, after)


@pytest.mark.parametrize("name", NAMES)
def test_sharded_places_give_the_same_rows(name):
  case = CASES[name]
  mesh = Mesh(np.array(jax.devices()), ("data",))

  def shard(leaf):
    spec = PartitionSpec("data") if leaf.shape[0] % 8 == 0 else PartitionSpec()
    return jax.device_put(leaf, NamedSharding(mesh, spec))

  resume = jax.jit(case.replay.resume)
  *_, last = _run(case, *_jitted(case))
  state, step = last[-1], jnp.int32(STEPS)
  sharded = jax.tree.map(shard, state)
  expected, given = resume(state, step=step), resume(sharded, step=step)
  assert (expected[0] >= 0).any()
  jax.tree.map(np.testing.assert_array_equal, given, expected)
