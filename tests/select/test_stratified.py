"""Fixed shares of hard, medium and easy prompts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import posterior, select
from jaxroll.select import _stratified


def test_strata_bounds_are_medium():
  rate = jnp.array([0.0, 0.3, 0.5, 0.7, 0.9], jnp.float32)
  assert _stratified.stratum(rate).tolist() == [0, 1, 1, 1, 2]


@pytest.mark.parametrize(
  "available, expected",
  [
    ([40, 40, 40], [2, 6, 2]),
    # The place that the hard lack goes to the largest share.
    ([1, 40, 40], [1, 7, 2]),
    # The medium lack 3: of equal shares the first takes what it has.
    ([4, 3, 40], [4, 3, 3]),
    # All that there are.
    ([1, 2, 3], [1, 2, 3]),
  ],
)
def test_seats(available, expected):
  share = jnp.array([0.2, 0.6, 0.2])
  seats = _stratified.seats(jnp.asarray(available), share, 10)
  assert seats.tolist() == expected


def test_shares_of_a_step():
  rate = jnp.concatenate([jnp.full(20, x) for x in (0.1, 0.5, 0.9)])
  stats = posterior.init(60)
  stats = stats.replace(alpha=10 * rate, beta=10 * (1 - rate))
  blocked = (jnp.arange(60) >= 1) & (jnp.arange(60) < 20)

  def choose(blocked):
    ids = select.stratified(
      stats, jnp.arange(60), num=10, blocked=blocked, key=jax.random.key(0)
    )
    return np.bincount(np.asarray(ids) // 20, minlength=3).tolist()

  assert choose(None) == [2, 6, 2]
  assert choose(blocked) == [1, 7, 2]


@pytest.mark.parametrize(
  "numbers, match",
  [
    ({"share": (0.5, 0.5, 0.5)}, "three shares"),
    ({"low": 0.8}, "low=0.8, high=0.7"),
  ],
)
def test_numbers_out_of_range_are_refused(numbers, match):
  with pytest.raises(ValueError, match=match):
    select.stratified(
      posterior.init(4), jnp.arange(4), num=2, key=jax.random.key(0), **numbers
    )
