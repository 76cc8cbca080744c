"""V0.5's baseline: worked values, when it is the prediction, its scale."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import advantage, posterior
from jaxroll.advantage import _shrinkage

GROUP = jnp.array([0, 0, 0, 0, 1, 1, 1, 1], jnp.int32)
VALID = jnp.ones(8, bool)


def _estimate(reward, prior, valid=VALID):
  """Advantages where V of the two groups is `prior`."""
  prior = jnp.array(prior)
  stats = posterior.init(2).replace(alpha=1 + prior, beta=1 - prior)
  return np.asarray(
    advantage.shrinkage(
      jnp.array(reward), GROUP, stats=stats, num_groups=2, valid=valid
    )
  )


@pytest.mark.parametrize(
  "prior, baseline, error",
  # m = 1/2 of 4. D^2 = 1.21 - .25 = .96, w = .793388; and 0.09 < 1/4.
  [(-0.6, 0.272727, 0.198347), (0.2, 0.2, 0.0)],
)
def test_worked_values(prior, baseline, error):
  mean, k = jnp.array([0.5]), jnp.array([4])
  found = _shrinkage.shrink(mean, jnp.array([prior]), k)
  np.testing.assert_allclose(found, [[baseline], [error]], rtol=1e-5)


def test_a_long_stream_ends_near_its_mean():
  # Sixteen +1 where V = -1: D^2 = 4 - 1/16, w = 63/64, b = 1 - 2/64.
  found, _ = _shrinkage.shrink(
    jnp.array([1.0]), jnp.array([-1.0]), jnp.array([16])
  )
  assert found.tolist() == [0.96875]


def test_without_rollouts_the_prediction_stands():
  found = _shrinkage.shrink(jnp.array([0.0]), jnp.array([0.75]), jnp.array([0]))
  assert [float(x[0]) for x in found] == [0.75, 0.0]


def test_advantages_are_those_of_rewards_in_plus_and_minus_one():
  reward = [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0]
  adv = _estimate(reward, [-0.6, 0.2])
  expected = [0.727273, 0.727273, -1.272727, 0.727273, 0.8, 0.8, -1.2, 0.8]
  np.testing.assert_allclose(adv, expected, rtol=1e-5)


def test_a_tied_group_learns_what_its_prediction_missed():
  # All right where V = 0: D^2 = 3/4, w = 3/4, b = 3/4. All wrong where
  # V = -0.75: (1/4)^2 < 1/4, b = V.
  adv = _estimate([1.0] * 4 + [0.0] * 4, [0.0, -0.75])
  np.testing.assert_allclose(adv, [0.25] * 4 + [-0.25] * 4, rtol=1e-6)


def test_rows_that_are_not_valid_do_not_count():
  # m = 1 of 2 where V = 0: D^2 = 1/2, w = 1/2.
  valid = VALID.at[2:4].set(False)
  adv = _estimate([1.0, 1.0, 0.0, jnp.nan] + [0.0] * 4, [0.0, -1.0], valid)
  np.testing.assert_allclose(adv, [0.5, 0.5] + [0.0] * 6, atol=1e-6)


def test_the_baseline_lies_between_mean_and_prediction():
  rng = np.random.default_rng(0)
  mean, prior = rng.uniform(-1, 1, (2, 200)).astype(np.float32)
  k = rng.integers(1, 30, 200)
  found, error = _shrinkage.shrink(mean, prior, jnp.asarray(k, jnp.int32))
  assert (found >= np.minimum(mean, prior) - 1e-6).all()
  assert (found <= np.maximum(mean, prior) + 1e-6).all()
  near = (mean - prior) ** 2 <= 1 / k
  np.testing.assert_array_equal(np.asarray(found)[near], prior[near])
  assert (error < 1 / k).all() and (np.asarray(error)[~near] > 0).all()
