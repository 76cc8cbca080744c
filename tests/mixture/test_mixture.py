"""Mixtures: the sources' values and hand-made ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import apportion, mixture, recipe
from jaxroll.mixture import (
  _apriel,
  _d3_mopd,
  _lineage,
  _reward_gap,
  _sources,
  _tscl,
  _ucb,
)
from jaxroll.types import Sizes
from tests.mixture import rows

K = 3
SIZES = Sizes(12, 6, 24, 5, 6, num_sources=K)


def _run(method, steps, sizes=SIZES):
  """State after some steps."""
  state = method.init(sizes, key=jax.random.key(0))
  update = jax.jit(lambda s, c: recipe.call(method.update, c | {"state": s}))
  for columns in steps:
    state = update(state, columns)
  return state


def _weights(method, state, seed=0):
  key = jax.random.key(seed)
  return np.asarray(method.apply(state, step=jnp.int32(0), key=key)[0])


# --- fixed


def test_fixed_is_equal_or_as_given():
  method = mixture.fixed()
  np.testing.assert_allclose(_weights(method, _run(method, [])), 1 / 3)
  method = mixture.fixed(weights=(3.0, 1.0, 0.0))
  np.testing.assert_allclose(
    _weights(method, _run(method, [])), [0.75, 0.25, 0.0]
  )


def test_weights_are_one_a_source():
  with pytest.raises(ValueError, match="has 2 entries, the task has 3"):
    mixture.fixed(weights=(0.5, 0.5)).init(SIZES, key=None)
  for make in (mixture.fixed, mixture.apriel):
    with pytest.raises(ValueError, match="must be >= 0 and not all 0"):
      make(weights=(0.0, 0.0))


# --- apriel


def test_apriel_corrects_by_what_was_completed():
  target = jnp.array([0.35, 0.25, 0.15, 0.15, 0.10])
  counts = jnp.array([20.0, 20, 30, 25, 5])
  np.testing.assert_allclose(
    _apriel.corrected(target, counts),
    [0.474806, 0.242248, 0.058140, 0.069767, 0.155039],
    atol=1e-6,
  )
  few = counts.at[0].set(-31.0)  # 49 in all: too few
  np.testing.assert_allclose(_apriel.corrected(target, few), target, rtol=1e-6)
  # 0 completed: 10; twice its target: 1/2. 5 : .25.
  np.testing.assert_allclose(
    _apriel.corrected(jnp.array([0.5, 0.5]), jnp.array([60.0, 0.0])),
    [0.047619, 0.952381],
    atol=1e-6,
  )
  never = _apriel.corrected(jnp.array([1.0, 0.0]), jnp.array([60.0, 0.0]))
  assert never.tolist() == [1.0, 0.0]


def test_apriel_counts_the_rows_that_are_valid():
  columns = rows.step([[1, 1, 0], [1, 0], [0]])
  columns["valid"] = jnp.array([True, False, True, True, True, True])
  state = _run(mixture.apriel(decay=0.5), [columns, columns])
  np.testing.assert_allclose(state[1], [3.0, 3.0, 1.5])


# --- d3_mopd


def _curves():
  t = np.arange(40)
  shape = [(0.5, 0.1, 6), (0.6, 0.1, 25), (0.9, 0.4, 60)]
  curves = [b + (a - b) * np.exp(-t / tau) for a, b, tau in shape]
  return np.round(curves, 6).astype(np.float32)


GAP = [0.256704, 0.396833, 0.767534]
VELOCITY = [0.268207, 0.239968, 0.0756351]
MIXED = [0.297892, 0.444367, 0.257741]


def test_d3_mopd_gap_velocity_and_mixture():
  curves = jnp.asarray(_curves())
  start = jnp.mean(curves[:, :5], axis=1)
  gap, velocity = _d3_mopd.gap_velocity(curves, 40, start)
  np.testing.assert_allclose(gap, GAP, rtol=1e-5)
  np.testing.assert_allclose(velocity, VELOCITY, rtol=1e-5)
  p = _d3_mopd.weigh(gap, velocity)
  np.testing.assert_allclose(p, MIXED, atol=1e-6)
  assert apportion.largest_remainder(p, 64).tolist() == [19, 28, 17]
  shaken = _d3_mopd.jittered(p, jnp.array([1.0, -1.0, 0.0]), 0.3)
  np.testing.assert_allclose(shaken, [0.405059, 0.325354, 0.269587], atol=1e-6)


def test_d3_mopd_reads_the_curves_off_the_rewards():
  method = mixture.d3_mopd(jitter=0.0)
  steps = [rows.step([[1 - x] for x in column]) for column in _curves().T]
  state = _run(method, steps)
  np.testing.assert_allclose(_weights(method, state), MIXED, atol=1e-4)
  # Two windows are not full: uniform.
  state = _run(method, steps[:19])
  np.testing.assert_allclose(_weights(method, state), 1 / 3, rtol=1e-6)


def test_d3_mopd_signal_is_a_function_of_the_reward():
  method = mixture.d3_mopd(jitter=0.0, signal=jnp.negative)
  steps = [rows.step([[-x] for x in column]) for column in _curves().T]
  np.testing.assert_allclose(
    _weights(method, _run(method, steps)), MIXED, atol=1e-4
  )


def test_d3_mopd_without_progress_is_uniform():
  method = mixture.d3_mopd(every=1, window=2, pairs=1)
  state = _run(method, [rows.step([[0.5], [0.1], [0.9]])] * 6)
  np.testing.assert_allclose(state.weights, 1 / 3, rtol=1e-6)
  shaken = [_weights(method, state, seed) for seed in range(20)]
  assert np.std(shaken) > 0.02
  # Shares of 1 +- .3, over their sum.
  assert np.min(shaken) > 0.7 / 3.3 and np.max(shaken) < 1.3 / 2.7


def test_d3_mopd_repeats_the_last_value_of_a_source_without_rows():
  columns = rows.step([[0.5], [0.25], [1.0]])
  without = columns | {"group": jnp.array([0, 1, -1], jnp.int32)}
  state = _run(mixture.d3_mopd(), [columns, without])
  np.testing.assert_allclose(state.values[:, -1], [0.5, 0.75, 0.0])


def test_d3_mopd_floor_is_for_all():
  with pytest.raises(ValueError, match="floor=0.4 for 3 sources"):
    mixture.d3_mopd(floor=0.4).init(SIZES, key=None)


# --- lineage


def test_lineage_advances_by_passed_groups():
  sizes = jnp.array([2, 1])
  place = _lineage.Place(jnp.int32(0), jnp.int32(0), jnp.zeros((), bool))
  walk = []
  for passed in (0, 1, 1, 1, 1):
    place = _lineage.advance(place, jnp.int32(passed), sizes)
    walk.append((int(place.generation), int(place.passed), bool(place.done)))
  assert walk == [
    (0, 0, False),
    (0, 1, False),
    (1, 0, False),
    (1, 1, True),
    (1, 1, True),
  ]


def test_lineage_needs_more_than_six_of_eight():
  method = mixture.lineage(passes=1)
  six, seven = [1] * 6 + [0] * 2, [1] * 7 + [0]
  # Source 1 passes long before its turn: that does not count.
  state = _run(method, [rows.step([six, seven, six])])
  assert _weights(method, state).tolist() == [1, 0, 0]
  state = _run(method, [rows.step([seven, seven, seven])])
  assert _weights(method, state).tolist() == [0, 1, 0]
  state = _run(method, [rows.step([seven, seven, seven])] * 5)
  assert _weights(method, state).tolist() == [0, 0, 1]
  assert bool(state[0].done)


def test_lineage_takes_a_step_of_passed_prompts_by_default():
  method = mixture.lineage()
  assert method.init(SIZES, key=None)[1].tolist() == [6, 6, 6]
  with pytest.raises(ValueError, match="tau=1.0"):
    mixture.lineage(tau=1.0)


# --- reward_gap, tscl, ucb


def test_reward_gap_values():
  np.testing.assert_allclose(
    _reward_gap.lagging(jnp.array([0.8, 0.5, 0.2])),
    [0.239694, 0.323554, 0.436752],
    atol=1e-6,
  )


def test_tscl_values():
  np.testing.assert_allclose(
    _tscl.moving(jnp.array([0.02, -0.03, 0.0])),
    [0.255692, 0.695042, 0.049267],
    atol=1e-6,
  )
  y = jnp.array([[0.0, 9.0], [0.1, 0.5], [9.0, 0.3], [0.3, 0.1]])
  count = jnp.array([[1.0, 0.0], [1.0, 2.0], [0.0, 2.0], [1.0, 2.0]])
  # Lines through what has weight: .1 a step, and -.2.
  np.testing.assert_allclose(_tscl.slope(y, count), [0.1, -0.2], rtol=1e-5)
  assert _tscl.slope(y, jnp.zeros((4, 2)).at[0].set(1.0)).tolist() == [0, 0]


def test_ucb_values():
  # .1 + sqrt(2 log 101 / 91) and .1 + sqrt(2 log 101 / 11).
  np.testing.assert_allclose(
    _ucb.scores(jnp.array([0.1, 0.1]), jnp.array([90.0, 10.0])),
    [0.418483, 1.016022],
    atol=1e-5,
  )


def test_rules_differ_and_counts_matter():
  """Means .95, .5, .05 of 40, 2 and 8 rollouts."""
  small = {"window": 4, "every": 1, "warmup": 0}
  step = rows.step([[0.95] * 40, [0.5] * 2, [0.05] * 8])
  gap = mixture.reward_gap(**small)
  bound = mixture.ucb(**small)
  by_gap = _weights(gap, _run(gap, [step] * 2))
  by_bound = _weights(bound, _run(bound, [step] * 2))
  assert np.argmax(by_gap) == 2 and np.argmax(by_bound) == 1
  # |adv| .45, 0, .45 of twice the rollouts; softmax of the bounds.
  count = 2 * np.array([40, 2, 8])
  score = np.array([0.45, 0.0, 0.45])
  score = score + np.sqrt(2 * np.log(101) / (count + 1))
  expected = np.maximum(np.exp(score) / np.exp(score).sum(), 0.05)
  np.testing.assert_allclose(by_bound, expected / expected.sum(), rtol=1e-5)
  # Equal counts: the bonus is equal, and the two ends lead.
  even = rows.step([[0.95] * 8, [0.5] * 8, [0.05] * 8])
  by_bound = _weights(bound, _run(bound, [even] * 2))
  assert np.argmin(by_bound) == 1


def test_ucb_counts_rows_that_were_filtered_as_zero_advantages():
  step = rows.step([[1] * 4, [1] * 4, [1] * 4])
  step["valid"] = jnp.arange(12) % 4 < 2
  state = _run(mixture.ucb(warmup=0, every=1), [step])
  np.testing.assert_allclose(state.score, 0.25)
  # The same by token.
  step["adv"] = jnp.broadcast_to(step["adv"][:, None], (12, 2))
  state = _run(mixture.ucb(warmup=0, every=1), [step])
  np.testing.assert_allclose(state.score, 0.25)


def test_a_window_forgets_and_a_missing_source_keeps_its_score():
  method = mixture.reward_gap(window=2, every=1, warmup=0)
  high, low = rows.step([[1], [1], [1]]), rows.step([[0], [0], [0]])
  without = low | {"group": jnp.array([0, 1, -1], jnp.int32)}
  state = _run(method, [high, low, low])
  np.testing.assert_allclose(state.score, 0.0)
  state = _run(method, [high, without, without, without])
  np.testing.assert_allclose(state.score, [0, 0, 1])


def test_a_mixture_is_made_every_few_steps_after_a_warmup():
  method = mixture.reward_gap(window=9, every=2, warmup=3)
  step = rows.step([[1], [0], [0]])
  changed = [
    bool(np.ptp(_weights(method, _run(method, [step] * n))) > 0)
    for n in range(5)
  ]
  assert changed == [False, False, False, False, True]


def test_a_floor_before_the_sum():
  p = _sources.softmax(jnp.array([0.0, 100.0, 0.0]), 1.0, 0.05)
  np.testing.assert_allclose(p, np.array([0.05, 1.0, 0.05]) / 1.1, rtol=1e-5)


@pytest.mark.parametrize(
  "make", [mixture.reward_gap, mixture.tscl, mixture.ucb]
)
def test_numbers_out_of_range_are_refused(make):
  for name in ("temperature", "window", "every"):
    with pytest.raises(ValueError, match=f"{name}=0 must be > 0"):
      make(**{name: 0})
  with pytest.raises(ValueError, match="floor=0.4 for 3 sources"):
    make(floor=0.4).init(SIZES, key=None)
