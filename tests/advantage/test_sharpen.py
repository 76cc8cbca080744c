"""XRPO's sharpening: worked values, who is left alone, by row and by token."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import advantage

GROUP = jnp.zeros(4, jnp.int32)
VALID = jnp.ones(4, bool)
ADV = jnp.array([1.0, 1.0, -1.0, -1.0])
REWARD = jnp.array([1.0, 1.0, 0.0, 0.0])
# Mean log-probs -.2, -.8, -.4, -.6 over rows of 1, 2, 2 and 3 tokens.
LOGP = jnp.array(
  [[-0.2, -9.0, -9.0], [-1.0, -0.6, 9.0], [-0.4, -0.4, 9.0], [-0.6] * 3]
)
MASK = jnp.array([[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1]], bool)


def _sharpen(adv=ADV, reward=REWARD, mask=MASK, valid=VALID, **hyper):
  return np.asarray(
    advantage.sharpen(
      adv, reward, GROUP, mask, LOGP, num_groups=1, valid=valid, **hyper
    )
  )


def test_worked_value():
  # The mean is -.5: 1 - exp(-.3) = .259182 for the second row.
  expected = [1.0, 1.259182, -1.0, -1.0]
  np.testing.assert_allclose(_sharpen(), expected, rtol=1e-5)


def test_growth_is_capped():
  assert _sharpen(lam=10.0).tolist() == [1.0, 1.5, -1.0, -1.0]
  assert _sharpen(lam=10.0, kap=0.25).tolist() == [1.0, 1.25, -1.0, -1.0]
  assert _sharpen(lam=10.0, kap=0.0).tolist() == ADV.tolist()


@pytest.mark.parametrize("adv", [0.0, -0.5])
def test_what_is_not_above_zero_is_left_alone(adv):
  np.testing.assert_array_equal(_sharpen(jnp.full(4, adv)), np.full(4, adv))


def test_wrong_rows_are_left_alone():
  # The unlikely fourth row with a positive advantage: right, then wrong.
  adv = jnp.array([-1.0, -1.0, -1.0, 1.0])
  right = _sharpen(adv, jnp.array([0.0, 0.0, 0.0, 1.0]))
  # exp(-.1): 1 - .904837
  np.testing.assert_allclose(right[3], 1.095163, rtol=1e-5)
  assert _sharpen(adv, jnp.full(4, 0.5))[3] == 1.0
  assert _sharpen(adv, jnp.full(4, 0.5), correct=0.4)[3] > 1.0


def test_rows_without_tokens_leave_the_mean_alone():
  # Without the third row the mean is -1.6/3: 1 - exp(-.8 + .533333).
  adv = _sharpen(mask=MASK.at[2].set(False))
  np.testing.assert_allclose(adv[1], 1 + 0.234072, rtol=1e-5)
  # Likewise without the row itself.
  np.testing.assert_allclose(
    _sharpen(valid=VALID.at[2].set(False)), [1, 1.234072, 0, -1], rtol=1e-5
  )


def test_advantages_by_token():
  by_token = jnp.stack([ADV, 0.1 * ADV, 0 * ADV], axis=1)
  adv = _sharpen(by_token)
  # 0.259182, at most half of the advantage.
  np.testing.assert_allclose(adv[1], [1.259182, 0.15, 0.0], rtol=1e-5)
  np.testing.assert_array_equal(adv[[0, 2, 3]], by_token[jnp.array([0, 2, 3])])


@pytest.mark.parametrize("hyper", [{"lam": -1.0}, {"kap": -1.0}])
def test_refuses(hyper):
  with pytest.raises(ValueError, match="-1.0.* must be >= 0"):
    _sharpen(**hyper)
