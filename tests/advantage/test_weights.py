"""The re-weighters' typed-in values and edges."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import advantage

ADV = jnp.array([0.0, 1.0, -1.0, 0.5])
MASK = jnp.ones((4, 2), bool)
VALID = jnp.ones(4, bool)
GROUP = jnp.array([0, 0, 1, 1], jnp.int32)
REWARD = jnp.array([1.0, 0.0, 1.0, 1.0])
BELL = {"group": GROUP, "num_groups": 2, "valid": VALID}


def test_softmax_weight_is_the_softmax_of_the_size():
  # exp(0, 1, 1, .5) * 4 / 8.085285 = .494726, 1.344804, 1.344804, .815665.
  out = advantage.softmax_weight(ADV, MASK, valid=VALID)
  weight = [0.494726, 1.344804, 1.344804, 0.815665]
  np.testing.assert_allclose(out, np.array(weight) * ADV, rtol=2e-6)


def test_softmax_weight_has_mean_one_over_what_is_valid():
  valid = jnp.array([True, True, True, False])
  adv = ADV.at[0].set(2.0).at[3].set(jnp.nan)
  out = advantage.softmax_weight(adv, MASK, valid=valid)
  np.testing.assert_allclose(np.mean(out[:3] / adv[:3]), 1.0, rtol=1e-6)
  assert out[3] == 0.0


def test_softmax_weight_of_equal_sizes_changes_nothing():
  adv = jnp.array([1.0, -1.0, -1.0, 1.0])
  out = advantage.softmax_weight(adv, MASK, valid=VALID)
  np.testing.assert_array_equal(out, adv)


def test_softmax_weight_evens_out_with_temperature():
  out = advantage.softmax_weight(ADV, MASK, valid=VALID, temperature=1e6)
  np.testing.assert_allclose(out, ADV, rtol=2e-6)


def test_softmax_weight_survives_large_advantages():
  adv = jnp.array([1e4, 0.0, 0.0, 0.0])
  out = advantage.softmax_weight(adv, MASK, valid=VALID)
  np.testing.assert_array_equal(out, [4e4, 0.0, 0.0, 0.0])


def test_softmax_weight_by_token_goes_by_the_rows_mean():
  tokens = jnp.stack([ADV, 3 * ADV], axis=1)
  mask = MASK.at[:, 1].set(False)
  out = advantage.softmax_weight(tokens, mask, valid=VALID)
  by_row = advantage.softmax_weight(ADV, MASK, valid=VALID)
  np.testing.assert_allclose(out[:, 0], by_row, rtol=2e-6)
  np.testing.assert_array_equal(out[:, 1], 0.0)


def test_bell_weight_is_highest_at_the_target():
  # Pass rates .5 and 1: weights 1 and exp(-2) = .135335, mean .567668.
  out = advantage.bell_weight(jnp.ones(4), REWARD, **BELL, width=0.25)
  expected = np.array([1, 1, 0.135335, 0.135335]) / 0.567668
  np.testing.assert_allclose(out, expected, rtol=2e-5)
  out = advantage.bell_weight(
    jnp.ones(4), REWARD, **BELL, width=0.25, target=1.0
  )
  np.testing.assert_allclose(out, expected[::-1], rtol=2e-5)


def test_bell_weight_of_one_difficulty_changes_nothing():
  reward = jnp.array([1.0, 0.0, 1.0, 0.0])
  out = advantage.bell_weight(ADV, reward, **BELL, target=0.1)
  np.testing.assert_array_equal(out, ADV)


def test_bell_weight_does_not_vanish_far_from_a_narrow_target():
  out = advantage.bell_weight(ADV, jnp.zeros(4), **BELL, width=1e-3)
  np.testing.assert_array_equal(out, ADV)


def test_bell_weight_by_token_and_unread_rows():
  tokens = jnp.stack([ADV, 2 * ADV], axis=1).at[3].set(jnp.nan)
  valid = VALID.at[3].set(False)
  reward = REWARD.at[3].set(jnp.inf)
  out = advantage.bell_weight(tokens, reward, **BELL | {"valid": valid})
  np.testing.assert_allclose(out[:, 1], 2 * out[:, 0], rtol=1e-6)
  np.testing.assert_array_equal(out[3], 0.0)
  assert np.isfinite(out).all()


def test_nothing_valid_gives_nothing():
  nobody = jnp.zeros(4, bool)
  out = advantage.softmax_weight(ADV, MASK, valid=nobody)
  np.testing.assert_array_equal(out, 0.0)
  out = advantage.bell_weight(ADV, REWARD, **BELL | {"valid": nobody})
  np.testing.assert_array_equal(out, 0.0)


def test_refuses_what_is_out_of_range():
  with pytest.raises(ValueError, match="temperature=0"):
    advantage.softmax_weight(ADV, MASK, valid=VALID, temperature=0)
  with pytest.raises(ValueError, match="width=0"):
    advantage.bell_weight(ADV, REWARD, **BELL, width=0)
  with pytest.raises(ValueError, match="target=1.5"):
    advantage.bell_weight(ADV, REWARD, **BELL, target=1.5)
