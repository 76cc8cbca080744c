"""E3: a budget by rank of difficulty."""

import jax
import jax.numpy as jnp
import pytest

from jaxroll import allocate
from jaxroll.allocate import _e3
from tests.allocate import columns

E3 = allocate.e3()


def _stats(mean, weight):
  f32 = lambda x: jnp.array(x, jnp.float32)  # noqa: E731
  return columns.stats(4).replace(mean=f32(mean), weight=f32(weight))


def _counts(mean, weight, rows=32, allocator=E3):
  return allocator.counts(
    _stats(mean, weight), round=0, rows=rows, key=jax.random.key(0)
  ).tolist()


def test_ranks():
  # Sums 8, 0, 4, 2 of 8, 8, 8, 0 samples: the last was never sampled.
  mean = jnp.array([1.0, 0.0, 0.5, 0.0], jnp.float32)
  assert _e3.ranks(mean).tolist() == [0.0, 0.5, 0.25, 0.75]


@pytest.mark.parametrize(
  "rank, n_min, n_max, expected",
  [
    # Shares 0, 1/6, 1/3, 1/2 of 16 above 4, and the one left to the hardest
    # with room.
    ([0.0, 0.25, 0.5, 0.75], 4, 12, [4, 6, 10, 12]),
    ([0.0, 0.0, 0.0, 0.0], 8, 8, [8, 8, 8, 8]),
    ([0.0, 0.0, 0.0, 0.0], 4, 12, [12, 12, 4, 4]),
    # The share by rank is not bounded, and without room some is not placed.
    ([0.0, 0.0, 0.0, 0.75], 4, 8, [4, 4, 4, 20]),
    ([0.0, 0.0, 0.0, 0.0], 4, 5, [5, 5, 5, 5]),
  ],
)
def test_by_rank(rank, n_min, n_max, expected):
  rank = jnp.array(rank, jnp.float32)
  assert _e3.by_rank(rank, 32, n_min, n_max).tolist() == expected


def test_bounds_widen_by_epoch():
  mean = [1.0, 0.75, 0.5, 0.0]
  # Nothing known, not yet an epoch, one of 6 to 10, two of 4 to 12, more.
  assert _counts(mean, [0, 0, 0, 0]) == [8, 8, 8, 8]
  assert _counts(mean, [8, 8, 8, 7]) == [8, 8, 8, 8]
  # 6 + 8 * (0, 1/6, 1/3, 1/2) = 6, 7, 8, 10, and 1 left: the hardest is full.
  assert _counts(mean, [8, 8, 8, 8]) == [6, 7, 9, 10]
  # 4 + 16 * shares = 4, 6, 9, 12.
  assert _counts(mean, [14, 15, 17, 18]) == [4, 6, 10, 12]
  assert _counts(mean, [800, 800, 800, 800]) == [4, 6, 10, 12]


def test_all_rows_are_spent_without_a_multiple():
  counts = _counts([1.0, 0.75, 0.5, 0.0], [0, 0, 0, 0], rows=34)
  # Nobody is below 8; the hardest are filled up to 9 first.
  assert counts == [8, 8, 9, 9]
  for weight in (9.0, 20.0):
    assert sum(_counts([0.5] * 4, [weight] * 4, rows=34)) == 34


def test_plan():
  assert E3.rounds(32, 4) == (32,)
  # More than 12 each are not spent.
  assert E3.rounds(99, 4) == (48,)
  with pytest.raises(ValueError, match="budget=15 < low.P=16: raise the budg"):
    E3.rounds(15, 4)


@pytest.mark.parametrize(
  "hyper, words",
  [
    ({"low": 0}, "low=0"),
    ({"low": 13}, "low=13, high=12"),
    ({"widen": -1}, "widen=-1"),
  ],
)
def test_refuses(hyper, words):
  with pytest.raises(ValueError, match=words):
    allocate.e3(**hyper)
