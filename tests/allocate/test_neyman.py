"""Neyman allocation: worked values, the exact total, floor and cap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate, posterior
from tests.allocate import columns

KEY = jax.random.key(0)


def _counts(rate, rows, **hyper):
  rate = jnp.array(rate)
  stats = columns.stats(len(rate)).replace(alpha=100 * rate)
  stats = stats.replace(beta=100 * (1 - rate))
  np.testing.assert_allclose(posterior.mean(stats), rate, rtol=1e-6)
  return allocate.neyman(**hyper).counts(stats, round=0, rows=rows, key=KEY)


def test_worked_value():
  # Standard deviations .14, .3, .5, .3: shares of 64 are 7.226, 15.484,
  # 25.806, 15.484. The third is rounded up, and one of the equal two.
  first, second, third, fourth = _counts([0.02, 0.1, 0.5, 0.9], 64).tolist()
  assert (first, third) == (7, 26)
  assert {second, fourth} == {15, 16}
  # .14, .3307, .5, .3307: 6.885, 16.264, 24.589, 16.264.
  counts = _counts([0.02, 0.125, 0.5, 0.875], 64)
  assert counts.tolist() == [7, 16, 25, 16]


def test_floor_and_cap_hold():
  # Deviations .0995, .5, .5, .0995 under floor 3 and cap 6: the bounds take
  # all of 18 = 2 * 3 + 2 * 6.
  counts = _counts([0.01, 0.5, 0.5, 0.99], 18, floor=3, cap=6)
  assert counts.tolist() == [3, 6, 6, 3]


def test_less_variance_of_the_means_than_equal_counts():
  rate = np.array([0.02, 0.1, 0.5, 0.9])
  counts = np.asarray(_counts(rate.tolist(), 64))
  spread = rate * (1 - rate)
  # (sum sd)^2 / 64 = 0.02402 is the least; equal counts give 0.02810.
  assert (spread / 16).sum() == pytest.approx(0.028100)
  assert (spread / counts).sum() == pytest.approx(1.24**2 / 64, abs=1e-4)


@pytest.mark.parametrize(
  "budget, expected", [(24, (24,)), (48, (32,)), (8, (8,))]
)
def test_rounds(budget, expected):
  assert allocate.neyman(floor=2, cap=8).rounds(budget, 4) == expected


@pytest.mark.parametrize(
  "hyper, words",
  [({"floor": -1}, "floor=-1"), ({"floor": 3, "cap": 2}, "cap=2 .*floor=3")],
)
def test_bad_numbers_are_refused(hyper, words):
  with pytest.raises(ValueError, match=words):
    allocate.neyman(**hyper)
