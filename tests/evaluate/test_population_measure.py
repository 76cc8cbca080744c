"""population: one step's rollouts, what they were good for, and the oracle."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate, posterior, select
from jaxroll.evaluate import population
from jaxroll.evaluate.population import Spent

ROWS, DRAWS = 1024, 400
HAND = Spent(jnp.array([4, 2, 0, 6]), jnp.array([1, 2, 0, 3]))


@functools.cache
def draws(name):
  """mixed share, zero-variance share, regret [400] of steps of 1024 rollouts.

  Each at P fresh prompts of difficulty d ~ N(-2, 4^2) and w = 0.
  """
  allocator, num_prompts = {
    "uniform8": (allocate.uniform(), 128),
    "uniform16": (allocate.uniform(), 64),
    "vigor": (allocate.vigor(), 128),
    "oracle": (population.oracle(), 128),
  }[name]

  def one(key):
    first, second = jax.random.split(key)
    rate = jax.nn.sigmoid(-2.0 + 4.0 * jax.random.normal(first, (num_prompts,)))
    told = name == "oracle"
    stats = population.known(rate) if told else posterior.init(num_prompts)
    spent = population.spend(allocator, rate, stats, budget=ROWS, key=second)
    return (
      population.mixed_share(spent),
      population.zero_variance_share(spent),
      population.regret(spent, rate),
      jnp.sum(spent.count),
    )

  keys = jax.random.split(jax.random.key(0), DRAWS)
  mapped = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=50))
  return [np.asarray(x) for x in mapped(keys)]


def near(x, expected):
  """Two means of 400 draws agree to five standard errors of the difference."""
  error = np.std(x, ddof=1) / np.sqrt(len(x))
  assert abs(np.mean(x) - expected) < 5 * np.sqrt(2) * error


@pytest.mark.parametrize(
  "name, share", [("uniform8", 0.420), ("uniform16", 0.517), ("vigor", 0.674)]
)
def test_share_of_rollouts_in_mixed_groups(name, share):
  mixed, _, _, spent = draws(name)
  assert (spent == ROWS).all()
  near(mixed, share)


def test_equal_groups_waste_what_they_do_not_use():
  mixed, zero, _, _ = draws("uniform8")
  np.testing.assert_allclose(mixed + zero, 1.0, rtol=1e-5)


def test_regret_orders_allocators_and_is_nothing_for_the_oracle():
  near(draws("oracle")[2], 0.0)
  assert draws("uniform8")[2].mean() > 5.0


def test_shares_by_hand():
  assert population.mixed(HAND).tolist() == [True, False, False, True]
  assert float(population.mixed_share(HAND)) == pytest.approx(10 / 12)
  assert float(population.zero_variance_share(HAND)) == pytest.approx(1 / 3)
  nothing = Spent(jnp.zeros(3, jnp.int32), jnp.zeros(3, jnp.int32))
  assert float(population.mixed_share(nothing)) == 0.0
  assert float(population.zero_variance_share(nothing)) == 0.0
  assert population.logit_gradient(nothing).tolist() == [0.0, 0.0, 0.0]


def test_logit_gradient_is_the_sum_of_standardised_rewards():
  expected = []
  for n, k in zip(HAND.count.tolist(), HAND.success.tolist()):
    reward = np.arange(n) < k
    spread = np.std(reward, ddof=1) if 0 < k < n else 1.0
    centred = reward - np.mean(reward) if n else np.zeros(0)
    expected.append(np.sum(centred / spread * reward) / 12)
  np.testing.assert_allclose(
    population.logit_gradient(HAND), expected, rtol=1e-6, atol=1e-7
  )


def test_rows_and_gather_are_inverse():
  reward, group, valid = population.rows(HAND, 16)
  again = population.gather(reward, group, valid, num_groups=4)
  assert again.count.tolist() == HAND.count.tolist()
  assert again.success.tolist() == HAND.success.tolist()
  assert int(valid.sum()) == 12


def test_empty_prompts_get_no_rollouts():
  spent = population.spend(
    allocate.vigor(m0=1),
    jnp.full(8, 0.5),
    posterior.init(8),
    budget=32,
    key=jax.random.key(0),
    present=jnp.arange(8) != 3,
  )
  assert int(spent.count[3]) == 0 and int(spent.count.sum()) <= 32


def test_rounds_of_single_rows_are_refused():
  single = allocate.uniform()._replace(gain=lambda stats: stats.alpha)
  with pytest.raises(ValueError, match="gain"):
    population.spend(
      single,
      jnp.full(2, 0.5),
      posterior.init(2),
      budget=4,
      key=jax.random.key(0),
    )


def test_rollouts_to_target():
  spent, value = jnp.array([8, 4, 8]), jnp.array([0.1, 0.8, 0.7])
  assert float(population.rollouts_to_target(spent, value, 0.8)) == 12.0
  assert float(population.rollouts_to_target(spent, value, 0.1)) == 8.0
  assert population.rollouts_to_target(spent, value, 0.9) == jnp.inf


# --- the oracle


def test_oracle_is_the_best_of_all_plans():
  rate, budget = np.array([0.5, 0.2, 0.97]), 8
  value = lambda n: sum(  # noqa: E731
    1 - p**k - (1 - p) ** k if k else 0.0 for p, k in zip(rate, n)
  )
  best = max(
    value(plan)
    for plan in itertools.product(range(budget + 1), repeat=3)
    if sum(plan) == budget
  )
  counts = population.best_counts(jnp.asarray(rate, jnp.float32), budget)
  assert int(counts.sum()) == budget
  assert value(counts.tolist()) == pytest.approx(best)


def test_oracle_leaves_what_exceeds_the_cap_and_has_one():
  assert population.best_counts(jnp.array([0.5, 0.1]), 9, cap=4).tolist() == [
    4,
    4,
  ]
  with pytest.raises(ValueError, match="cap=1"):
    population.oracle(cap=1)


# --- gradients


def test_exact_gradient_is_the_derivative_of_the_mean_solve_rate():
  toy = population.logistic(16, features=2, num_eval=4)
  w = jnp.array([0.1, -0.2, 0.3])
  rate = np.asarray(toy.solve_rate({"w": w}), np.float64)[:16]
  slope = 4 * rate * (1 - rate)
  np.testing.assert_allclose(
    population.exact_gradient(toy, {"w": w})["w"],
    slope @ toy.task.feature[:16] / 16,
    rtol=1e-4,
  )


def test_signal_to_noise_is_unbiased():
  draws = jax.random.normal(jax.random.key(0), (400, 50, 3))
  draws = draws.at[:, :, 0].add(0.5)
  # |E g|^2 = 1/4, noise 3, of 2 rollouts each.
  near(jax.vmap(population.signal_to_noise, (0, None))(draws, 2.0), 0.25 / 6)
  assert population.signal_to_noise(jnp.ones((3, 2)), 1.0) == jnp.inf


def test_cosine_without_the_easy_direction():
  """Of updates of 1024 rollouts, the constant coordinate left out."""
  toy = population.logistic()
  params = toy.policy.init(jax.random.key(0))
  exact = population.exact_gradient(toy, params)["w"]
  others = jnp.arange(25) < 24
  pool = jnp.asarray(toy.task.train_pool)

  def one(key):
    first, second = jax.random.split(key)
    ids = select.random(posterior.init(1152), pool, num=128, key=first)
    spent = population.spend(
      allocate.uniform(),
      toy.solve_rate(params)[ids],
      posterior.init(128),
      budget=ROWS,
      key=second,
    )
    update = population.policy_gradient(toy, params, ids, spent)["w"]
    return (
      population.cosine(update, exact, where=others),
      population.cosine(update, exact),
    )

  keys = jax.random.split(jax.random.key(2), DRAWS)
  without, whole = jax.jit(lambda keys: jax.lax.map(one, keys))(keys)
  near(np.asarray(without), 0.297)
  assert whole.mean() > 0.95
