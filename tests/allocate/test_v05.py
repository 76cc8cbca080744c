"""V0.5's look-ahead: worked values, the price, and when it loses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate
from jaxroll.advantage import _shrinkage
from jaxroll.allocate import _v05
from jaxroll.types import Tally
from tests.allocate import columns

KEY = jax.random.key(0)


def _stats(prior):
  """Posteriors whose means are (prior + 1) / 2."""
  prior = jnp.asarray(prior, jnp.float32)
  stats = columns.stats(prior.shape[0])
  return stats.replace(alpha=1 + prior, beta=1 - prior)


def test_worked_values():
  # m = 1/2 of 4: (1.1)^2 - 1/4 = 0.96, and 0.09 < 1/4.
  mean, prior = jnp.array([0.5, 0.5]), jnp.array([-0.6, 0.2])
  bias_sq = _v05.prior_bias_sq(mean, prior, jnp.array([4, 4]))
  np.testing.assert_allclose(bias_sq, [0.96, 0.0], rtol=1e-6)
  # 0.96 / 4.84 - 0.96 / 5.8
  fall = _v05.error_fall(bias_sq, jnp.array([4, 4]))
  np.testing.assert_allclose(fall, [0.0328299, 0.0], rtol=1e-5)
  counts = allocate.v05().counts(
    _stats(prior),
    columns.tally([[1, 1, 0, 1]] * 2),
    jnp.array([4, 4], jnp.int32),
    round=1,
    rows=2,
    key=KEY,
  )
  assert counts.tolist() == [1, 0]


def test_no_rollouts_show_no_error():
  k = jnp.array([0])
  assert _v05.prior_bias_sq(jnp.zeros(1), jnp.ones(1), k).tolist() == [0.0]


@pytest.mark.parametrize("k_max, expected", [(16, 16), (99, 16), (9, 9)])
def test_a_hopeless_prediction_costs_sixteen(k_max, expected):
  # All right where V = -1: 1 / (k (k + 1)) > 0.0039 up to k = 15.
  allocator = allocate.v05(k_max=k_max)
  stats = _stats([-1.0 + 1e-6])
  given = 4
  for _ in range(30):
    given += int(
      allocator.counts(
        stats,
        columns.tally([[1.0] * given]),
        jnp.array([given], jnp.int32),
        round=1,
        rows=1,
        key=KEY,
      )[0]
    )
  assert given == expected


def test_scarce_rows_go_to_the_largest_fall_and_strides_stop_at_the_price():
  # D^2 = 2.25 - 1/4 = 2, 0.96, 0 after 4 rollouts of m = 1/2: falls of 2 are
  # .0404, .0280, .0205, .0157; of .96 they are .0328, .0235, .0177, .0138.
  stats = _stats([-1.0 + 1e-6, -0.6, 0.2])
  give = lambda rows, **hyper: allocate.v05(**hyper).counts(  # noqa: E731
    stats,
    columns.tally([[1, 1, 0, 1]] * 3),
    jnp.full(3, 4, jnp.int32),
    round=1,
    rows=rows,
    key=KEY,
  )
  assert give(1).tolist() == [1, 0, 0]
  assert give(9).tolist() == [1, 1, 0]
  assert give(3, stride=4).tolist() == [2, 1, 0]
  assert give(9, stride=4, c=0.02).tolist() == [3, 2, 0]
  assert give(9, stride=4, k_max=6).tolist() == [2, 2, 0]


def test_rounds():
  assert allocate.v05(stride=4).rounds(64, 8) == (32, 11, 11, 10)
  assert allocate.v05().rounds(32, 8) == (32,)
  assert allocate.v05().rounds(35, 8) == (32, 1, 1, 1)
  # Never more than k_max for each.
  assert allocate.v05(k_max=6).rounds(99, 8) == (32, 8, 8)
  assert allocate.v05(k_max=4).rounds(99, 8) == (32,)


@pytest.mark.parametrize(
  "hyper, words",
  [
    ({"k_init": 0}, "k_init=0"),
    ({"k_max": 3}, "k_max=3"),
    ({"c": 0.0}, "c=0.0"),
    ({"stride": 0}, "stride=0"),
  ],
)
def test_bad_numbers_are_refused(hyper, words):
  with pytest.raises(ValueError, match=words):
    allocate.v05(**hyper)


def test_wins_with_a_fair_prediction_and_loses_with_a_bad_one():
  # 4000 prompts, p ~ U(.05, .95), V off by +-bias; squared error of the mix
  # and rollouts a prompt. A mean of 4 has 0.18, of 16 0.047.
  num, rng = 4000, np.random.default_rng(0)
  rate = rng.uniform(0.05, 0.95, num)
  expected_reward = 2 * rate - 1
  stream = rng.random((num, 16)) < rate[:, None]
  right = np.concatenate([np.zeros((num, 1)), stream.cumsum(axis=1)], axis=1)
  allocator = allocate.v05()
  counts_of = jax.jit(allocator.counts)

  def run(bias):
    prior = expected_reward + bias * rng.choice([-1, 1], num)
    stats = _stats(np.clip(prior, -1 + 1e-6, 1 - 1e-6))
    given = np.zeros(num, np.int32)
    for number in range(13):
      success = right[np.arange(num), given].astype(np.float32)
      zeros = jnp.zeros(num, jnp.float32)
      tally = Tally(jnp.asarray(given), jnp.asarray(success), zeros, zeros)
      given = given + np.asarray(
        counts_of(
          stats,
          tally,
          jnp.asarray(given),
          round=jnp.int32(number),
          rows=jnp.int32(4 * num),
          key=KEY,
        )
      )
    mean = 2 * right[np.arange(num), given] / given - 1
    baseline, _ = _shrinkage.shrink(
      jnp.asarray(mean, jnp.float32),
      2 * stats.alpha / (stats.alpha + stats.beta) - 1,
      jnp.asarray(given),
    )
    error = np.mean((np.asarray(baseline) - expected_reward) ** 2)
    return error, given.mean()

  of_four = np.mean((2 * right[:, 4] / 4 - 1 - expected_reward) ** 2)
  assert of_four == pytest.approx(0.180, abs=0.02)
  fair, bad = run(0.0), run(1.0)
  assert fair == pytest.approx((0.006, 4.51), rel=0.25)
  assert bad == pytest.approx((0.234, 9.69), rel=0.1)
  assert fair[0] < of_four / 10 and bad[0] > of_four
