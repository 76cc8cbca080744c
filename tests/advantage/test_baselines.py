"""Dr. GRPO, RLOO and REINFORCE: identities and exact expectations."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import advantage

GROUP = jnp.array([0, 0, 0, 1, 1, 1, 1, 1], jnp.int32)
REWARD = np.array([0.5, -1.0, 2.0, 0.0, 1.0, 1.0, 3.0, -2.0], np.float32)
VALID = np.array([1, 1, 1, 1, 0, 1, 1, 1], bool)


def estimate(fn, reward=REWARD, valid=VALID):
  return np.asarray(
    fn(jnp.asarray(reward), GROUP, num_groups=2, valid=jnp.asarray(valid))
  )


def test_rloo_leaves_the_row_itself_out():
  expected = np.zeros(8)
  for i in np.flatnonzero(VALID):
    others = (np.asarray(GROUP) == GROUP[i]) & VALID & (np.arange(8) != i)
    expected[i] = REWARD[i] - REWARD[others].mean()
  np.testing.assert_allclose(estimate(advantage.rloo), expected, rtol=1e-6)


def test_rloo_is_dr_grpo_scaled():
  # G/(G-1): 3/2 in the first group, 4/3 in the second (one row not valid).
  scale = np.array(3 * [3 / 2] + 5 * [4 / 3])
  np.testing.assert_allclose(
    estimate(advantage.rloo), scale * estimate(advantage.dr_grpo), rtol=1e-6
  )


def test_dr_grpo_subtracts_the_group_mean():
  # Means: (0.5 - 1 + 2) / 3 = 0.5 and (0 + 1 + 3 - 2) / 4 = 0.5.
  expected = [0.0, -1.5, 1.5, -0.5, 0.0, 0.5, 2.5, -2.5]
  np.testing.assert_allclose(estimate(advantage.dr_grpo), expected, atol=1e-6)


def test_reinforce_subtracts_the_batch_mean():
  reward = REWARD + 4.0 * (np.asarray(GROUP) == 1)
  # Sum 1.5 + 2 + 4 * 4 = 19.5 over 7 rows.
  expected = np.where(VALID, reward - 19.5 / 7, 0.0)
  np.testing.assert_allclose(
    estimate(advantage.reinforce, reward), expected, rtol=1e-5
  )


def test_reinforce_is_silent_where_the_whole_batch_ties():
  adv = estimate(advantage.reinforce, np.full(8, 0.1, np.float32))
  np.testing.assert_array_equal(adv, np.zeros(8))


@pytest.mark.parametrize(
  "fn, scale",
  # The group mean holds the row's own reward: (G-1)/G of the gradient.
  [
    (advantage.rloo, 1.0),
    (advantage.dr_grpo, 2 / 3),
    (advantage.reinforce, 2 / 3),
  ],
)
def test_expected_gradient_over_all_groups_of_three(fn, scale):
  probs = np.array([0.5, 0.3, 0.2])
  value = np.array([1.0, -0.5, 2.0])
  draws = np.array(list(itertools.product(range(3), repeat=3)))  # [27, 3]
  one_group = jnp.zeros(3, jnp.int32)
  valid = jnp.ones(3, bool)
  adv = jax.vmap(
    lambda reward: fn(reward, one_group, num_groups=1, valid=valid)
  )(jnp.asarray(value[draws], jnp.float32))
  score = np.eye(3)[draws] - probs  # gradient of log softmax, [27, 3, 3]
  chance = probs[draws].prod(axis=1)
  gradient = np.einsum("n,ng,nga->a", chance, np.asarray(adv), score) / 3
  exact = probs * (value - probs @ value)
  np.testing.assert_allclose(gradient, scale * exact, atol=1e-6)
