"""HIVE: hive_prior by reward history, hive_check by prompt entropy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import posterior, recipe, select
from jaxroll.select import _hive_prior
from jaxroll.types import Sizes
from tests.select import rows

N = 5


def test_prior():
  state = _hive_prior.History(
    rate=jnp.array([0.5, 0, 1, 0.25, 0]),
    visits=jnp.array([2, 4, 1, 3, 0]),
    ties=jnp.array([0, 4, 1, 0, 0]),
    entropy=jnp.array([0.8, 0.2, 0.3, 0.4, 0]),
  )
  # (1 + 1) / 2; floor; (0 + .375) / 2 * .5; (.75 + .5) / 2; never visited.
  np.testing.assert_allclose(
    _hive_prior.prior(state), [1, 0.05, 0.09375, 0.625, 1], rtol=1e-6
  )
  # Without any entropy its factor is 1: (4 p (1 - p) + 1) / 2.
  state = state._replace(entropy=jnp.zeros(N))
  np.testing.assert_allclose(
    _hive_prior.prior(state), [1, 0.05, 0.25, 0.875, 1], rtol=1e-6
  )


def test_history_of_a_step():
  method = select.hive_prior(rate=0.5)
  state = method.init(Sizes(N, 2, 4, 5, 6), key=jax.random.key(0))
  entropy = jnp.array([[9, 1, 2, 9], [9, 4, 9, 9], [1, 1, 1, 1], [3, 3, 3, 3]])
  step = functools.partial(
    rows.step,
    entropy=entropy.astype(jnp.float32),
    length=jnp.array([3, 2, 4, 4]),
    given_length=jnp.array([1, 1, 0, 0]),
  )
  for rewards in ([[1, 0], [1, 1]], [[1, 1], [1, 1]]):
    columns = step([3, 1], rewards) | {"state": state}
    state = recipe.call(method.update, columns)
  # Prompt 3: .5, then half of .5 and half of 1. Prompt 1: 1 both times.
  np.testing.assert_allclose(state.rate, [0, 1, 0, 0.75, 0])
  assert state.visits.tolist() == [0, 2, 0, 2, 0]
  assert state.ties.tolist() == [0, 2, 0, 1, 0]
  # Sampled tokens only: (1 + 2 + 4) / 3 and (4 * 1 + 4 * 3) / 8.
  np.testing.assert_allclose(state.entropy, [0, 2, 0, 7 / 3, 0], rtol=1e-6)


def test_candidates_are_drawn_with_their_prior():
  method = select.hive_prior()
  state = method.init(Sizes(2, 1, 4, 5, 6), key=jax.random.key(0))
  # q = 1 and q = .2: (0 + .4) / 2.
  state = state._replace(
    visits=jnp.array([0, 1]), entropy=jnp.array([1.0, 0.4])
  )

  @jax.jit
  @jax.vmap
  def draw(key):
    pool = jnp.arange(2)
    return method.apply(state, posterior.init(2), pool, num=1, key=key)[0]

  ids = np.asarray(draw(jax.random.split(jax.random.key(0), 4000)))
  # Both pass with .2 and are then alike, else the first: .1.
  assert abs(np.mean(ids) - 0.1) < 5 * np.sqrt(0.1 * 0.9 / 4000)


def test_check_takes_the_upper_half_of_the_candidates():
  # Candidates 0, 2, 3, 4; median 1.05: those above are 3 and 0.
  pool, entropy = jnp.array([0, 2, 3, 4]), jnp.array([1.2, 0.7, 2.2, 0.9])
  check = functools.partial(select.hive_check, posterior.init(N), key=None)
  assert check(pool, entropy, num=2).tolist() == [3, 0]
  # With fewer candidates than twice the places the next best fill up.
  assert check(pool, entropy, num=3).tolist() == [3, 0, 4]


def test_the_two_stages_are_a_chain():
  prior = select.hive_prior(candidates=4)
  rules = recipe.Recipe("hive", None, select=(prior, select.hive_check))
  assert not recipe.asks(prior, "num")
  assert recipe.asks(rules.select[-1], "prompt_entropy")
  ids, _ = recipe.call(
    prior.apply,
    {
      "state": prior.init(Sizes(N, 2, 4, 5, 6), key=jax.random.key(0)),
      "stats": posterior.init(N),
      "pool": jnp.arange(N),
    },
    key=jax.random.key(0),
  )
  assert len(set(ids.tolist())) == 4


def test_more_candidates_than_the_pool_are_the_pool():
  prior = select.hive_prior(candidates=99)
  ids, _ = prior.apply(
    prior.init(Sizes(N, 2, 4, 5, 6), key=None),
    posterior.init(N),
    jnp.arange(N),
    key=jax.random.key(0),
  )
  assert sorted(ids.tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("number", [{"floor": 0.0}, {"candidates": 0}])
def test_numbers_out_of_range_are_refused(number):
  name, value = next(iter(number.items()))
  with pytest.raises(ValueError, match=f"{name}={value} must"):
    select.hive_prior(**number)
