"""DART's rollout counts: worked values, the exact threshold, what is saved."""

import jax
import jax.numpy as jnp
import pytest

from jaxroll import allocate
from jaxroll.allocate import _dart
from tests.allocate import columns


def test_worked_values():
  rate = jnp.array([0.0, 0.6, 0.7, 0.8, 1.0])
  assert _dart.rollout_count(rate, 8, 2, 0.6).tolist() == [8, 8, 6, 4, 2]


def test_counts_never_grow_with_the_success_rate():
  rate = jnp.linspace(0, 1, 5 * 20 + 1)
  counts = _dart.rollout_count(rate, 16, 3, 0.25)
  assert (counts[1:] <= counts[:-1]).all()
  assert (int(counts.max()), int(counts.min())) == (16, 3)


def test_counts_follow_the_posterior_and_stay_within_rows():
  # Means 1/2, 3/4, 5/6, 7/8, 9/10: 8, 5, ceil(10/3), ceil(5/2), 2.
  stats = columns.stats(5)
  give = lambda rows: allocate.dart().counts(  # noqa: E731
    stats, round=0, rows=rows, key=jax.random.key(0)
  )
  assert give(40).tolist() == [8, 5, 4, 3, 2]
  assert give(15).tolist() == [8, 5, 2, 0, 0]


@pytest.mark.parametrize(
  "hyper, words",
  [
    ({"n_min": 0}, "n_min=0"),
    ({"n_max": 1}, "n_max=1"),
    ({"threshold": 1.0}, "threshold=1.0"),
    ({"threshold": -0.1}, "threshold=-0.1"),
  ],
)
def test_bad_numbers_are_refused(hyper, words):
  with pytest.raises(ValueError, match=words):
    allocate.dart(**hyper)
