"""The posterior mean as the baseline of tied groups."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import advantage

# None of 16 right; 8 of 8; 7 of 8; none scored of 2.
GROUP = jnp.asarray(np.repeat(np.arange(4), (16, 8, 8, 2)), jnp.int32)
REWARD = jnp.array([0.0] * 16 + [1.0] * 8 + [1.0] * 7 + [0.0] + [1.0] * 2)
VALID = jnp.arange(34) < 32


def estimate(reward=REWARD, valid=VALID, **hyper):
  return np.asarray(
    advantage.posterior_baseline(
      reward, GROUP, num_groups=4, valid=valid, **hyper
    )
  )


def test_worked_values():
  # u = 1/18: -1 / sqrt(17); u = 9/10: 0.1 / 0.3; then GRPO with ddof 0.
  expected = [-0.242536] * 16 + [0.333333] * 8 + [0.377963] * 7 + [-2.645743]
  np.testing.assert_allclose(estimate(), expected + [0.0] * 2, atol=5e-6)


def test_prior_moves_the_baseline():
  # u = 3 / 20: -sqrt(3/17); u = 11 / 12: sqrt(1/11).
  adv = estimate(prior=(3.0, 1.0))
  np.testing.assert_allclose(adv[[0, 16]], [-0.420084, 0.301511], atol=1e-6)


def test_mixed_groups_are_grpo():
  adv = estimate(eps=0.25, ddof=1)
  grpo = advantage.grpo(
    REWARD, GROUP, num_groups=4, valid=VALID, eps=0.25, ddof=1
  )
  np.testing.assert_array_equal(adv[24:32], grpo[24:32])


def test_tied_fractions_count_as_fractions_of_a_success():
  # 16 rows of 0.25: u = 5 / 18, of which 0.25 is a little less.
  adv = estimate(REWARD.at[:16].set(0.25))
  np.testing.assert_allclose(adv[:16], -0.0620174, rtol=1e-4)


def test_more_rows_teach_less_each():
  some = estimate(valid=VALID & (jnp.arange(34) % 2 == 0))
  every = estimate()
  assert some[0] < every[0] < 0 < every[16] < some[16]


@pytest.mark.parametrize(
  "hyper, words",
  [
    ({"prior": (0.0, 1.0)}, "prior=.0.0, 1.0. must be"),
    ({"eps": -1}, "eps=-1"),
  ],
)
def test_refuses(hyper, words):
  with pytest.raises(ValueError, match=words):
    estimate(**hyper)
