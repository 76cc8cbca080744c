"""Bandit rules: worked values, edges, and who wins under drift."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import bandit

TOTAL, PULLS = jnp.array([3.0, 8.0]), jnp.array([5.0, 10.0])


def test_ucb_scores():
  # .6 + sqrt(2 log 15 / 5), .8 + sqrt(2 log 15 / 10).
  np.testing.assert_allclose(
    bandit.ucb_scores(TOTAL, PULLS), [1.640779, 1.535942], rtol=1e-6
  )
  new = bandit.ucb_scores(jnp.append(TOTAL, 0.0), jnp.append(PULLS, 0.0))
  assert int(jnp.argmax(new)) == 2 and bool(jnp.all(jnp.isfinite(new)))
  none = bandit.ucb_scores(jnp.zeros(3), jnp.zeros(3))
  assert int(jnp.argmax(none)) == 0


def test_epsilon_greedy():
  pick = lambda u, v: int(  # noqa: E731
    bandit.epsilon_greedy(TOTAL, PULLS, jnp.float32(u), jnp.float32(v))
  )
  # u < .1 explores arm floor(2 v); else .8 beats .6.
  assert [pick(0.05, 0.5), pick(0.05, 0.49), pick(0.1, 0.0)] == [1, 0, 1]
  zeros = jnp.zeros(2)
  assert int(bandit.epsilon_greedy(zeros, zeros, jnp.float32(1), 0.0)) == 0


def test_discount_shrinks_all_arms():
  total, pulls = bandit.discount(
    TOTAL, PULLS, jnp.zeros(2), jnp.array([0.0, 1.0]), gamma=0.9
  )
  np.testing.assert_allclose(total, [2.7, 7.2], rtol=1e-6)
  np.testing.assert_allclose(pulls, [4.5, 10.0], rtol=1e-6)


def test_rollback_has_a_margin():
  move = lambda lead, margin: int(  # noqa: E731
    bandit.rollback(jnp.array([0.8 + lead, 0.8]), 1, margin=margin)
  )
  assert [move(0.1, 0.05), move(0.04, 0.05), move(0.0, 0.0)] == [0, 1, 1]


def test_thompson_draws_have_the_posterior_mean():
  keys = jax.random.split(jax.random.key(0), 4000)
  draws = jax.vmap(lambda k: bandit.thompson_scores(TOTAL, PULLS, k))(keys)
  # Beta(4, 3) and Beta(9, 3).
  np.testing.assert_allclose(
    np.mean(draws, axis=0), [4 / 7, 9 / 12], atol=5 * 0.2 / 4000**0.5
  )


def test_discounted_thompson_follows_a_reversal():
  """Arms .6, .5, .4 that turn round at half: forgetting pays."""
  rates = jnp.array([0.6, 0.5, 0.4], jnp.float32)

  def run(key, gamma):
    def step(carry, number):
      draw, toss = jax.random.split(jax.random.fold_in(key, number))
      arm = jnp.argmax(bandit.thompson_scores(*carry, draw))
      rate = jnp.where(number < 500, rates, rates[::-1])[arm]
      reward = jax.random.bernoulli(toss, rate).astype(jnp.float32)
      one = jax.nn.one_hot(arm, 3, dtype=jnp.float32)
      return bandit.discount(*carry, reward * one, one, gamma=gamma), rate

    zeros = jnp.zeros(3, jnp.float32)
    numbers = jnp.arange(1000, dtype=jnp.int32)
    return jnp.mean(jax.lax.scan(step, (zeros, zeros), numbers)[1])

  keys = jax.random.split(jax.random.key(0), 32)
  runs = jax.jit(jax.vmap(run, in_axes=(0, None)))
  gain = np.asarray(runs(keys, 0.98) - runs(keys, 1.0))
  # .015 when written; a static arm gets .5, the best possible is .6.
  assert gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(gain.size)
