"""The reward functions' typed-in values."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import numerics, reward

LOGP = jnp.array([[-1.0, -1.0, jnp.nan], [-2.0, jnp.nan, jnp.nan]])
REF = jnp.array([[-2.0, -1.5, jnp.nan], [-1.0, jnp.nan, jnp.nan]])
MASK = jnp.array([[1, 1, 0], [1, 0, 0]], bool)


@pytest.mark.parametrize(
  "estimator, expected",
  # Log ratios [1, 0.5] and [-1]; k2 halves their squares; k3 is
  # exp(-d) - 1 + d: 0.36788, 0.10653 and 1.71828 - 1 = 0.71828.
  [
    (numerics.k1, [1.5, -1.0]),
    (numerics.k2, [0.625, 0.5]),
    (numerics.k3, [0.47441, 0.71828]),
  ],
)
def test_kl_penalty(estimator, expected):
  out = reward.kl_penalty(
    jnp.ones(2), LOGP, REF, MASK, coefficient=0.1, estimator=estimator
  )
  np.testing.assert_allclose(out, 1.0 - 0.1 * np.array(expected), rtol=1e-5)


def test_kl_penalty_of_the_reference_itself_is_nothing():
  out = reward.kl_penalty(jnp.array([0.3, 0.7]), LOGP, LOGP, MASK)
  np.testing.assert_array_equal(out, np.array([0.3, 0.7], np.float32))


def test_overlong_is_a_ramp():
  length = jnp.array([1, 16, 17, 18, 19, 20, 25])
  out = reward.overlong(jnp.ones(7), length, limit=20, buffer=4, penalty=2.0)
  # 2 * (length - 16) / 4, between 0 and 2.
  np.testing.assert_allclose(out, [1, 1, 0.5, 0, -0.5, -1, -1], atol=1e-6)


@pytest.mark.parametrize(
  "hyper, message",
  [
    ({"limit": 8, "buffer": 9}, r"buffer=9 must lie in \[1, limit=8\]"),
    ({"limit": 8, "buffer": 0}, "buffer=0"),
    ({"limit": 8, "buffer": 4, "penalty": -1.0}, "penalty=-1.0 must be >= 0"),
  ],
)
def test_overlong_refuses(hyper, message):
  with pytest.raises(ValueError, match=message):
    reward.overlong(jnp.ones(2), jnp.ones(2, jnp.int32), **hyper)


def test_kl_penalty_refuses_a_bonus():
  with pytest.raises(ValueError, match="coefficient=-0.1 must be >= 0"):
    reward.kl_penalty(jnp.ones(2), LOGP, REF, MASK, coefficient=-0.1)
