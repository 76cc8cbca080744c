"""apportion: worked values, a heap, brute force over all whole numbers."""

import functools
import heapq
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxroll import apportion

K, C = 6, 5  # one shape for what is compiled
fill = jax.jit(apportion.fill)
greedy = jax.jit(apportion.greedy)
remainder = jax.jit(apportion.largest_remainder)

integers = functools.partial(st.lists, min_size=K, max_size=K)
few_examples = settings(max_examples=60, deadline=None, derandomize=True)


# --- proportional


@pytest.mark.parametrize(
  "weights, total, expected",
  [
    ([0.5, 0.3, 0.2], 64, [32, 19, 13]),  # 32, 19.2, 12.8
    ([1, 1, 1], 4, [2, 1, 1]),  # ties to the lower index
    ([0, 0, 0], 5, [2, 2, 1]),
    ([0, 1, 0], 5, [0, 5, 0]),
    ([1, 2, 3], 0, [0, 0, 0]),
    # sqrt(p (1 - p)) for p = .02, .1, .5, .9: 7.23, 15.48, 25.81, 15.48; of
    # the equal remainders float32 rounds the last one up.
    ([0.14, 0.3, 0.5, 0.3], 64, [7, 16, 26, 15]),
  ],
)
def test_worked_values_of_the_largest_remainder(weights, total, expected):
  out = apportion.largest_remainder(jnp.array(weights, jnp.float32), total)
  assert out.tolist() == expected and out.dtype == jnp.int32


def test_what_is_not_available_spills():
  # Quotas 2, 6, 2; one of the first; the other 9 in proportion: 6.75, 2.25.
  weights = jnp.array([0.2, 0.6, 0.2])
  out = apportion.largest_remainder(
    weights, 10, available=jnp.array([1, 40, 40])
  )
  assert out.tolist() == [1, 7, 2]
  out = apportion.largest_remainder(weights, 10, available=jnp.array([1, 2, 3]))
  assert out.tolist() == [1, 2, 3]
  # The second has weight 0 and still takes what nobody else can.
  out = apportion.largest_remainder(
    jnp.array([1.0, 0.0]), 5, available=jnp.array([2, 9])
  )
  assert out.tolist() == [2, 3]


def test_a_negative_total_is_refused():
  with pytest.raises(ValueError, match="total=-1 must be in"):
    apportion.largest_remainder(jnp.ones(3), -1)


def _hamilton(weights, total):
  """Largest remainder in whole numbers: no rounding at all."""
  whole = sum(weights)
  counts = [total * w // whole for w in weights]
  left = total - sum(counts)
  order = sorted(
    range(len(weights)), key=lambda i: -(total * weights[i] % whole)
  )
  for i in order[:left]:
    counts[i] += 1
  return counts


@few_examples
@given(integers(st.integers(0, 64)), st.integers(0, 200))
def test_largest_remainder_is_that_of_whole_numbers(weights, total):
  # Weights that sum to a power of two have exact quotas in float32.
  weights[-1] += 512 - sum(weights)
  out = remainder(jnp.array(weights, jnp.float32), total)
  assert out.tolist() == _hamilton(weights, total)


@few_examples
@given(
  integers(st.integers(0, 9)), integers(st.integers(0, 9)), st.integers(0, 60)
)
def test_availability_is_kept_and_the_sum_is_exact(weights, available, total):
  out = remainder(
    jnp.array(weights, jnp.float32), total, available=jnp.array(available)
  )
  assert int(out.sum()) == min(total, sum(available))
  assert np.all((out >= 0) & (out <= jnp.array(available)))


@pytest.mark.parametrize(
  "weights, total, bounds, expected",
  [
    ([10, 1, 1, 1], 32, (0, 16), [16, 6, 5, 5]),
    ([0, 0, 0, 0], 32, (0, 16), [8, 8, 8, 8]),
    ([1, 1, 1, 1], 32, (8, 8), [8, 8, 8, 8]),
    # The first is held at its floor, the last at its cap: 9 = 3 + 6 between.
    ([0, 1, 2, 90], 20, (1, 10), [1, 3, 6, 10]),
    ([3, 0, 0, 0], 20, (2, 8), [8, 4, 4, 4]),
  ],
)
def test_worked_values_of_fill(weights, total, bounds, expected):
  floor, cap = bounds
  weights = jnp.array(weights, jnp.float32)
  out = apportion.fill(weights, total, floor=floor, cap=cap)
  assert out.tolist() == expected and out.dtype == jnp.int32


@few_examples
@given(
  integers(st.integers(0, 5)),
  st.integers(0, 4),
  st.integers(0, 9),
  st.integers(0, 90),
)
def test_fill_is_exact_bounded_fair_and_monotone(weights, floor, more, total):
  cap = floor + more
  out = fill(jnp.array(weights, jnp.float32), total, floor=floor, cap=cap)
  out = out.tolist()
  assert sum(out) == min(max(total, K * floor), K * cap)
  assert all(floor <= n <= cap for n in out)
  for (v, m), (w, n) in itertools.combinations(zip(weights, out), 2):
    assert v != w or abs(m - n) <= 1
    assert v <= w or m >= n - 1
    assert v >= w or n >= m - 1


def test_fill_stays_within_one_of_the_bounded_shares():
  rng = np.random.default_rng(0)
  for weights in rng.gamma(0.3, size=(20, K)):
    out = fill(jnp.asarray(weights, jnp.float32), 40, floor=2, cap=16)
    low, high = 0.0, 1e9
    for _ in range(200):  # lambda of the closed form, by bisection in float64
      scale = (low + high) / 2
      shares = np.clip(scale * weights, 2, 16)
      low, high = (scale, high) if shares.sum() < 40 else (low, scale)
    assert np.all(np.abs(np.asarray(out) - shares) < 1 + 1e-3)


@pytest.mark.parametrize(
  "total, bounds, message",
  [
    (40, (0, 8), r"total=40 is infeasible: .* 0 <= total <= 32"),
    (3, (1, 8), r"total=3 is infeasible: .* 4 <= total"),
    (32, (8, 4), r"cap=4 < floor=8 is infeasible"),
    (32, (-1, 8), r"floor=-1 must be >= 0"),
  ],
)
def test_infeasible_numbers_are_refused(total, bounds, message):
  with pytest.raises(ValueError, match=message):
    apportion.fill(jnp.ones(4), total, floor=bounds[0], cap=bounds[1])


def test_a_million_shares_have_the_exact_sum():
  weights = jax.random.uniform(jax.random.key(0), (10**6,))
  out = fill(weights, 8 * 10**6 + 3, floor=2, cap=16)
  assert int(out.sum()) == 8 * 10**6 + 3
  assert int(out.min()) >= 2 and int(out.max()) <= 16


# --- by marginal gain


def heap(gains, budget, where):
  """The definition: one rollout at a time to the largest next gain."""
  counts = [0] * len(gains)
  queue = [(-row[0], i) for i, row in enumerate(gains) if where[i]]
  heapq.heapify(queue)
  while queue and budget:
    gain, i = heapq.heappop(queue)
    if gain == np.inf:
      break
    counts[i] += 1
    budget -= 1
    if counts[i] < len(gains[i]):
      heapq.heappush(queue, (-gains[i][counts[i]], i))
  return counts


@few_examples
@given(
  st.lists(
    st.lists(st.integers(-4, 5), min_size=C, max_size=C),
    min_size=K,
    max_size=K,
  ),
  integers(st.booleans()),
  st.integers(0, K * C + 3),
)
def test_greedy_is_a_heap_on_tied_tables(table, where, budget):
  # Few distinct gains of both signs; -4 stands for what is never taken.
  table = -np.sort(-np.array(table, np.float32), axis=1)
  table[table == -4] = -np.inf
  out = greedy(jnp.asarray(table), budget, where=jnp.array(where))
  assert out.tolist() == heap(table, budget, where)
  takeable = np.isfinite(table[np.array(where)]).sum()
  assert int(out.sum()) == min(budget, takeable)


@pytest.mark.parametrize("seed", range(4))
def test_greedy_is_a_heap_on_random_tables(seed):
  rng = np.random.default_rng(seed)
  table = rng.normal(size=(300, 7)) * 10.0 ** rng.integers(-9, 9, size=(300, 1))
  table = -np.sort(-table.astype(np.float32), axis=1)
  for budget in (1, 299, 1000, 2099):
    out = greedy(jnp.asarray(table), budget)
    assert out.tolist() == heap(table, budget, np.ones(300, bool))


def test_greedy_gains_most_of_all_allocations():
  rng = np.random.default_rng(1)
  table = -np.sort(-rng.random((3, 4)), axis=1).astype(np.float32)
  total = lambda counts: sum(row[:n].sum() for row, n in zip(table, counts))  # noqa: E731
  for budget in range(13):
    best = max(
      total(counts)
      for counts in itertools.product(range(5), repeat=3)
      if sum(counts) == budget
    )
    counts = apportion.greedy(jnp.asarray(table), budget).tolist()
    np.testing.assert_allclose(total(counts), best, rtol=1e-6)


def test_greedy_never_takes_what_is_not_a_number():
  table = jnp.array([[jnp.nan, jnp.nan], [0.0, -jnp.inf], [-0.0, -1.0]])
  assert apportion.greedy(table, 9).tolist() == [0, 1, 2]
  # 0 and -0 tie, and the lower index goes first.
  assert apportion.greedy(table, 1).tolist() == [0, 1, 0]


def test_a_traced_budget_compiles_once():
  table = jnp.asarray(np.full((K, C), 0.5), jnp.float32)
  by_budget = chex.assert_max_traces(apportion.greedy, n=1)
  by_budget = jax.jit(by_budget)
  assert [int(by_budget(table, n).sum()) for n in (0, 7, 99)] == [0, 7, K * C]


def test_many_tables_and_weights_at_once():
  tables = -np.sort(-np.random.default_rng(2).random((3, K, C)), axis=2)
  tables = jnp.asarray(tables, jnp.float32)
  budgets = jnp.array([0, 7, 20])
  many = jax.vmap(apportion.greedy)(tables, budgets)
  each = [greedy(*pair).tolist() for pair in zip(tables, budgets)]
  assert many.tolist() == each
  weights = tables[..., 0]
  many = jax.vmap(lambda w, n: apportion.fill(w, n, cap=9))(weights, budgets)
  each = [fill(*pair, cap=9).tolist() for pair in zip(weights, budgets)]
  assert many.tolist() == each


def test_eight_devices_give_the_same_counts():
  mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
  by_prompt = jax.sharding.NamedSharding(
    mesh, jax.sharding.PartitionSpec("data")
  )
  table = -np.sort(-np.random.default_rng(3).random((16, C)), axis=1)
  table = jnp.asarray(table.round(1), jnp.float32)
  expected = apportion.greedy(table, 30)
  out = greedy(jax.device_put(table, by_prompt), 30)
  assert out.tolist() == expected.tolist()
  weights = table[:, 1]
  expected = apportion.fill(weights, 50, cap=9)
  out = fill(jax.device_put(weights, by_prompt), 50, cap=9)
  assert out.tolist() == expected.tolist()


def test_gain_table_ends_at_the_cap():
  p, have = jnp.array([0.5, 0.1]), jnp.array([1, 3])
  table = apportion.gain_table(
    lambda n: apportion.mixed_gain(p, n), have, 3, cap=4
  )
  # .5^h for p = .5; .1^h .9 + .9^h .1 for p = .1.
  expected = [[0.5, 0.25, 0.125], [0.0738, -np.inf, -np.inf]]
  np.testing.assert_allclose(table, expected, rtol=1e-5)


# --- gains


def test_mixed_gain_is_the_growth_of_p_mixed():
  p = np.array([0.0, 1e-6, 0.02, 0.3, 0.5, 0.9, 1.0], np.float32)[:, None]
  n = np.arange(9, dtype=np.int32)[None]
  exact = 1 - p.astype(float) ** n - (1 - p.astype(float)) ** n
  exact = np.where(n > 1, exact, 0.0)
  np.testing.assert_allclose(
    apportion.p_mixed(p, n), exact, rtol=1e-5, atol=1e-12
  )
  # No second outcome without a first: the growth from 0 to 1 rollout is 0.
  growth = np.diff(exact, axis=1)
  np.testing.assert_allclose(
    apportion.mixed_gain(p, n[:, :-1]), growth, rtol=1e-4, atol=1e-7
  )
  assert np.all(np.diff(apportion.mixed_gain(p, n)[:, 1:], axis=1) <= 0)


def test_variance_gain_is_the_fall_of_the_variance():
  p, have = jnp.array([0.5, 0.1, 0.1, 1.0]), jnp.array([0, 0, 3, 2])
  out = apportion.variance_gain(p, have)
  # .09 (1/3 - 1/4) = .0075
  np.testing.assert_allclose(out, [0.25, 0.09, 0.0075, 0.0], rtol=1e-5)


@pytest.mark.parametrize("number", [3, 4, 1000])
def test_huge_totals_and_caps_are_settled(number):
  """Sums of bounds pass the range of int32 long before a total does."""
  shares = apportion.largest_remainder(jnp.ones(number), apportion.MOST)
  assert int(jnp.sum(shares)) == apportion.MOST
  assert int(jnp.max(shares) - jnp.min(shares)) <= 1
  filled = apportion.fill(jnp.ones(number), 5000, cap=2**31 - 1)
  assert int(jnp.sum(filled)) == 5000
  with pytest.raises(ValueError, match="total=1073741824 must be in"):
    apportion.largest_remainder(jnp.ones(number), 2**30)
