"""Thompson allocation: certain beliefs, shares of wins, the gain's choice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate, apportion
from jaxroll.allocate import _thompson
from tests.allocate import columns


def _stats(alpha, beta):
  stats = columns.stats(len(alpha))
  as_f32 = lambda x: jnp.asarray(x, jnp.float32)  # noqa: E731
  return stats.replace(alpha=as_f32(alpha), beta=as_f32(beta))


# Solve rates that are all but known: 1/2, 1/16, 15/16, 0.
SURE = _stats([5e6, 1e6, 15e6, 1e-3], [5e6, 15e6, 1e6, 1e6])


@pytest.mark.parametrize(
  "gain, expected",
  [
    # Growth of a mixed group from one rollout each: .5, .25, .125, .0625 at
    # 1/2 and .1172, .0586 at 1/16 and 15/16. The six largest: three at 1/2,
    # one at each of the others, a fourth at 1/2.
    (apportion.mixed_gain, [5, 2, 2, 1]),
    # p (1 - p) (1/n - 1/(n+1)): .125, .0417, .0208, .0125 at 1/2 and .0293,
    # .0098 at the others: again four at 1/2 and one at each of the others.
    (apportion.variance_gain, [5, 2, 2, 1]),
  ],
)
def test_certain_beliefs_are_allocated_greedily(gain, expected):
  counts = allocate.thompson(gain=gain).counts(
    SURE, round=0, rows=10, key=jax.random.key(0)
  )
  assert counts.tolist() == expected


def test_gains_differ_where_groups_are_large():
  # With a floor of 4 the next mixed gains are .0625 at 1/2 and .0484 at 1/16;
  # then .0313 against .0454: the rare outcome wins. Variance: .0125, .0083,
  # .0060 against .0029.
  stats = _stats([5e6, 1e6], [5e6, 15e6])
  give = lambda gain: allocate.thompson(floor=4, gain=gain).counts(  # noqa: E731
    stats, round=0, rows=11, key=jax.random.key(0)
  )
  assert give(apportion.mixed_gain).tolist() == [5, 6]
  assert give(apportion.variance_gain).tolist() == [7, 4]


def test_a_budget_goes_to_each_as_often_as_its_draw_is_best():
  # One rollout beside the floor: it goes to the draw nearest 1/2. With equal
  # beliefs each of four prompts wins a quarter of 2000 steps.
  stats = _stats([1.0] * 4, [1.0] * 4)
  allocator = allocate.thompson()
  give = lambda key: allocator.counts(stats, round=0, rows=5, key=key)  # noqa: E731
  counts = jax.jit(jax.vmap(give))(jax.random.split(jax.random.key(1), 2000))
  share = np.asarray(counts == 2).mean(axis=0)
  np.testing.assert_allclose(share, 0.25, atol=5 * np.sqrt(0.25 * 0.75 / 2000))


def test_draws_follow_the_posterior_and_not_the_place():
  stats = _stats([3.0, 1.0, 9.0, 1.0], [1.0, 2.0, 1.0, 8.0])
  draw = jax.jit(jax.vmap(lambda key: _thompson.draw(stats, key)))
  rates = np.asarray(draw(jax.random.split(jax.random.key(2), 2000)))
  mean = np.array([3 / 4, 1 / 3, 9 / 10, 1 / 9])
  # a b / ((a + b)^2 (a + b + 1))
  spread = np.sqrt([3 / 80, 2 / 36, 9 / 1100, 8 / 810])
  assert (abs(rates.mean(axis=0) - mean) < 5 * spread / np.sqrt(2000)).all()
  order = np.array([2, 0, 3, 1])
  moved = jax.tree.map(lambda x: x[order], stats)
  key = jax.random.key(3)
  np.testing.assert_array_equal(
    _thompson.draw(moved, key), np.asarray(_thompson.draw(stats, key))[order]
  )


def test_rounds_stop_at_the_cap():
  assert allocate.thompson(floor=2, cap=8).rounds(48, 4) == (32,)
  assert allocate.thompson(floor=2, cap=8).rounds(31, 4) == (31,)


@pytest.mark.parametrize("hyper", [{"floor": 0}, {"floor": 4, "cap": 4}])
def test_bad_numbers_are_refused(hyper):
  with pytest.raises(ValueError, match=f"floor={hyper['floor']}"):
    allocate.thompson(**hyper)
