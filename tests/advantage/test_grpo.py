"""GRPO's advantage: typed-in values and its hyper-parameters."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import advantage

GROUP = jnp.zeros(4, jnp.int32)
VALID = jnp.ones(4, bool)
REWARD = jnp.array([1.0, 0.0, 0.0, 0.0])


def grpo(reward=REWARD, **hyper):
  return advantage.grpo(reward, GROUP, num_groups=1, valid=VALID, **hyper)


@pytest.mark.parametrize(
  "ddof, expected",
  # mean 1/4; sum of squares 3/4; std 1/2 with ddof 1, sqrt(3)/4 with 0.
  [(1, [1.5, -0.5, -0.5, -0.5]), (0, [1.7320508] + 3 * [-0.5773503])],
)
def test_one_right_of_four(ddof, expected):
  np.testing.assert_allclose(grpo(ddof=ddof), expected, rtol=1e-5)


def test_eps_is_added_to_the_standard_deviation():
  # 0.75 / (0.5 + 0.25) and -0.25 / 0.75
  expected = [1.0] + 3 * [-1 / 3]
  np.testing.assert_allclose(grpo(eps=0.25), expected, rtol=1e-6)


def test_a_tie_without_eps_is_zero():
  np.testing.assert_array_equal(grpo(jnp.full(4, 0.1), eps=0.0), np.zeros(4))


def test_does_not_depend_on_the_scale_of_rewards():
  np.testing.assert_allclose(
    grpo(1000.0 * REWARD, eps=0.0), grpo(REWARD, eps=0.0), rtol=1e-5
  )


@pytest.mark.parametrize(
  "hyper, message",
  [({"eps": -1.0}, "eps=-1.0 must be >= 0"), ({"ddof": 2}, "ddof=2 must be 0")],
)
def test_refuses(hyper, message):
  with pytest.raises(ValueError, match=message):
    grpo(**hyper)
