"""posterior: hand-worked updates, a slow transcription, exact enumeration."""

import doctest
import fractions
import functools
import itertools
import math
import operator
import time

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroll import beta_draws, numerics, posterior, types

N, P, B = 16, 4, 12
IDS = jnp.array([5, 2, -1, 11], jnp.int32)
GROUP = jnp.array([0, 0, 0, 1, 1, 1, 1, 2, 3, 3, -1, 4], jnp.int32)
REWARD = jnp.array([1, 0, 1, 2.5, -1, 0.25, 1, 1, 1, 0, 1, 1], jnp.float32)
LENGTH = jnp.array([3, 9, 4, 5, 6, 7, 8, 99, 2, 3, 99, 99], jnp.int32)
# No row of slot 3 is evidence; slot 2 is empty; the last two rows have no slot.
WHERE = jnp.array([1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1], bool)
ROWS = (IDS, REWARD, LENGTH, GROUP, WHERE)


def _observe_slowly(history, num_ids, local, decay, prior):
  """Every rollout of a history with its weight, prompt by prompt."""
  rows = {i: [] for i in range(num_ids)}  # [weight, reward, length]
  seen = np.full(num_ids, -1)
  for step, (ids, reward, length, group, where) in enumerate(history):
    new = {}
    for r, g, n, counts in zip(reward, group, length, where):
      if counts and 0 <= g < len(ids) and ids[g] >= 0:
        new.setdefault(int(ids[g]), []).append([1.0, float(r), float(n)])
    for i, old in rows.items():
      for row in old:
        row[0] *= decay * (local if i in new else 1.0)
      old += new.get(i, [])
      seen[i] = step if i in new else seen[i]
  out = {name: np.zeros(num_ids) for name in types.PromptStats.__annotations__}
  for i, member in rows.items():
    w, r, n = np.array(member).reshape(-1, 3).T
    out["alpha"][i] = prior[0] + (w * np.clip(r, 0, 1)).sum()
    out["beta"][i] = prior[1] + (w * (1 - np.clip(r, 0, 1))).sum()
    out["weight"][i] = w.sum()
    if w.sum() > 0:
      out["mean"][i] = (w * r).sum() / w.sum()
      out["m2"][i] = (w * (r - out["mean"][i]) ** 2).sum()
      out["length"][i] = (w * n).sum() / w.sum()
  return types.PromptStats(**{**out, "seen": seen})


def _history(steps):
  """Random steps in which an id may be -1 or stand twice."""
  rng = np.random.default_rng(0)
  for _ in range(steps):
    yield (
      jnp.asarray(rng.integers(-1, 6, size=P), jnp.int32),
      jnp.asarray(rng.choice([-1, 0, 0.25, 1, 3], size=B), jnp.float32),
      jnp.asarray(rng.integers(1, 9, size=B), jnp.int32),
      jnp.asarray(rng.integers(-1, P + 1, size=B), jnp.int32),
      jnp.asarray(rng.integers(0, 4, size=B) > 0),
    )


def test_examples_in_the_docstrings():
  assert doctest.testmod(posterior).failed == 0


# --- observe


def test_worked_value_of_two_scale_decay():
  # .9 * .5 * 4 + 6 = 7.8 right, .9 * .5 * 4 + 2 = 3.8 wrong, over the prior.
  stats = posterior.init(2).replace(
    alpha=jnp.array([5.0, 1.0]), beta=jnp.array([5.0, 1.0])
  )
  stats = posterior.observe(
    stats,
    jnp.array([0]),
    jnp.array([1.0] * 6 + [0.0] * 2),
    jnp.ones(8, jnp.int32),
    jnp.zeros(8, jnp.int32),
    jnp.ones(8, bool),
    step=0,
    local=0.5,
    decay=0.9,
  )
  np.testing.assert_allclose(stats.alpha - 1, [7.8, 0.0], rtol=1e-6)
  np.testing.assert_allclose(stats.beta - 1, [3.8, 0.0], rtol=1e-6)


def test_one_step_by_hand():
  stats = posterior.observe(posterior.init(N), *ROWS, step=7)
  expected = {
    "alpha": {5: 3.0, 2: 3.25},  # 1 + 1 + 0 + 1; 1 + 1 + 0 + .25 + 1
    "beta": {5: 2.0, 2: 2.75},
    "weight": {5: 3.0, 2: 4.0},
    "mean": {5: 2 / 3, 2: 2.75 / 4},  # of raw rewards 2.5, -1, .25, 1
    "m2": {5: 2 / 3, 2: 8.3125 - 2.75**2 / 4},
    "length": {5: 16 / 3, 2: 6.5},
    "seen": {5: 7, 2: 7},
  }
  prior = posterior.init(N)
  for name, by_id in expected.items():
    row = np.array(getattr(prior, name))
    row[list(by_id)] = list(by_id.values())
    np.testing.assert_allclose(getattr(stats, name), row, 1e-6, err_msg=name)


@pytest.mark.parametrize(
  "local, decay, prior",
  [(1.0, 1.0, (1.0, 1.0)), (0.5, 0.9, (0.5, 2.0)), (0.0, 0.7, (1.0, 3.0))],
)
def test_a_history_equals_its_transcription(local, decay, prior):
  stats = posterior.init(N, prior=prior)
  fn = jax.jit(
    functools.partial(posterior.observe, local=local, decay=decay, prior=prior)
  )
  history = list(_history(6))
  for step, rows in enumerate(history):
    stats = fn(stats, *rows, step=step)
  assert fn._cache_size() == 1
  slow = _observe_slowly(history, N, local, decay, prior)
  chex.assert_trees_all_close(stats, slow, rtol=1e-5, atol=1e-5)


def test_without_evidence_only_decay_acts():
  stats = posterior.observe(posterior.init(N), *ROWS, step=0)
  rows = (*ROWS[:4], jnp.zeros(B, bool))
  after = posterior.observe(stats, *rows, step=1, local=0.1, decay=0.5)
  np.testing.assert_allclose(after.alpha[5], 1 + (3 - 1) / 2)
  np.testing.assert_allclose(after.weight, stats.weight / 2)
  np.testing.assert_allclose(after.m2, stats.m2 / 2)
  for name in ("mean", "length", "seen"):
    np.testing.assert_array_equal(getattr(after, name), getattr(stats, name))


def test_rows_that_are_no_evidence_are_unread():
  evidence = WHERE & (GROUP >= 0) & (GROUP < P)
  reward = jnp.where(evidence, REWARD, jnp.nan)
  length = jnp.where(evidence, LENGTH, 2**30)
  clean = posterior.observe(posterior.init(N), *ROWS, step=0)
  dirty = posterior.observe(
    posterior.init(N), IDS, reward, length, GROUP, WHERE, step=0
  )
  chex.assert_trees_all_equal(clean, dirty)


def test_tied_rewards_have_no_deviation():
  stats = posterior.init(N)
  for step in range(4):
    stats = posterior.observe(
      stats, IDS, jnp.full(B, 0.1), LENGTH, GROUP, WHERE, step=step, decay=0.9
    )
  np.testing.assert_array_equal(stats.m2, np.zeros(N))
  np.testing.assert_array_equal(posterior.reward_std(stats), np.zeros(N))


def test_types_are_stable():
  stats = posterior.init(N)
  for factors in ({}, {"decay": jnp.float32(0.9), "local": jnp.float32(0.5)}):
    after = posterior.observe(stats, *ROWS, step=jnp.int32(3), **factors)
    chex.assert_trees_all_equal_shapes_and_dtypes(stats, after)
    assert not any(x.weak_type for x in jax.tree.leaves((stats, after)))


def test_seeds_by_vmap_equal_one_by_one():
  stats = posterior.observe(posterior.init(N), *ROWS, step=0)
  seeds = jax.tree.map(lambda *x: jnp.stack(x), stats, posterior.init(N))
  flip = jnp.stack([REWARD, 1 - REWARD])
  out = jax.vmap(
    lambda s, r: posterior.observe(
      s, IDS, r, LENGTH, GROUP, WHERE, step=1, decay=0.9
    )
  )(seeds, flip)
  for i, before in enumerate((stats, posterior.init(N))):
    one = posterior.observe(
      before, IDS, flip[i], LENGTH, GROUP, WHERE, step=1, decay=0.9
    )
    row = jax.tree.map(operator.itemgetter(i), out)
    chex.assert_trees_all_close(row, one, rtol=1e-6)


def test_sharding_is_kept_on_eight_devices():
  mesh = Mesh(np.array(jax.devices()), ("data",))
  by_id = NamedSharding(mesh, PartitionSpec("data"))
  rows = jax.device_put(ROWS, NamedSharding(mesh, PartitionSpec()))
  stats = jax.device_put(posterior.init(N), by_id)
  fn = jax.jit(functools.partial(posterior.observe, local=0.5, decay=0.9))
  expected = posterior.init(N)
  for step in range(2):
    stats = fn(stats, *rows, step=step)
    expected = posterior.observe(
      expected, *ROWS, step=step, local=0.5, decay=0.9
    )
    for leaf in jax.tree.leaves(stats):
      assert leaf.sharding.is_equivalent_to(by_id, 1)
  assert fn._cache_size() == 1
  chex.assert_trees_all_close(stats, expected, rtol=1e-6)


def test_a_million_prompts():
  stats = posterior.init(10**6)
  fn = jax.jit(posterior.observe, donate_argnums=0)
  stats = jax.block_until_ready(fn(stats, *ROWS, step=0))
  start = time.perf_counter()
  stats = jax.block_until_ready(fn(stats, *ROWS, step=1))
  assert time.perf_counter() - start < 5.0  # a tenth of a second on 2 cores
  np.testing.assert_allclose(stats.alpha[:6], [1, 1, 5.5, 1, 1, 5], rtol=1e-6)
  np.testing.assert_array_equal(stats.seen[6:], -1)


@pytest.mark.parametrize(
  "bad, message",
  [
    ({"local": 1.5}, r"local=1.5: must lie in \[0, 1\]"),
    ({"decay": -0.1}, r"decay=-0.1: must lie in \[0, 1\]"),
    ({"prior": (0.0, 1.0)}, r"prior=\(0.0, 1.0\): .* alpha > 0"),
  ],
)
def test_bad_hyper_parameters_are_refused(bad, message):
  with pytest.raises(ValueError, match=message):
    posterior.observe(posterior.init(N), *ROWS, step=0, **bad)


def test_a_bad_prior_is_refused_by_init():
  with pytest.raises(ValueError, match=r"prior=\(1.0, -1.0\)"):
    posterior.init(N, prior=(1.0, -1.0))


# --- what the beliefs say

ALPHA = (0.5, 1.0, 2.0, 3.0, 40.0, 1.0)
BETA = (0.5, 1.0, 1.0, 7.0, 2.0, 500.0)


def _stats():
  return posterior.init(len(ALPHA)).replace(
    alpha=jnp.array(ALPHA, jnp.float32), beta=jnp.array(BETA, jnp.float32)
  )


def _moment(alpha, beta, i, j):
  """E[p^i (1 - p)^j] under Beta(alpha, beta), exactly."""
  a, b = fractions.Fraction(alpha), fractions.Fraction(beta)
  top = math.prod([a + x for x in range(i)] + [b + x for x in range(j)])
  return top / math.prod([a + b + x for x in range(i + j)])


def test_moments_of_the_beta():
  pairs = list(zip(ALPHA, BETA))
  first = [_moment(a, b, 1, 0) for a, b in pairs]
  second = [_moment(a, b, 2, 0) for a, b in pairs]
  mixed = [float(_moment(a, b, 1, 1)) for a, b in pairs]
  spread = [float(y - x * x) for x, y in zip(first, second)]
  stats = _stats()
  np.testing.assert_allclose(posterior.mean(stats), np.array(first, float))
  np.testing.assert_allclose(posterior.variance(stats), spread, rtol=1e-5)
  out = posterior.expected_bernoulli_variance(stats.alpha, stats.beta)
  np.testing.assert_allclose(out, mixed, rtol=1e-6)


def _prob_mixed_by_enumeration(alpha, beta, n):
  total = fractions.Fraction(0)
  for outcome in itertools.product((0, 1), repeat=n):
    if 0 < sum(outcome) < n:
      total += _moment(alpha, beta, sum(outcome), n - sum(outcome))
  return float(total)


@pytest.mark.parametrize("n", [-1, 0, 1, 2, 3, 8])
def test_prob_mixed_sums_over_all_mixed_outcomes(n):
  stats = _stats()
  expected = [
    _prob_mixed_by_enumeration(a, b, max(n, 0)) for a, b in zip(ALPHA, BETA)
  ]
  out = posterior.prob_mixed(stats.alpha, stats.beta, n)
  np.testing.assert_allclose(out, expected, rtol=2e-6, atol=0)
  traced = jax.jit(posterior.prob_mixed)(stats.alpha, stats.beta, n)
  np.testing.assert_allclose(traced, expected, rtol=2e-6, atol=0)


def test_prob_mixed_by_prompt_and_in_a_table():
  stats, n = _stats(), jnp.arange(len(ALPHA))
  by_prompt = posterior.prob_mixed(stats.alpha, stats.beta, n)
  table = posterior.prob_mixed(
    stats.alpha[:, None], stats.beta[:, None], n[None]
  )
  expected = [
    [_prob_mixed_by_enumeration(a, b, m) for m in range(len(ALPHA))]
    for a, b in zip(ALPHA, BETA)
  ]
  np.testing.assert_allclose(table, expected, rtol=2e-6)
  np.testing.assert_allclose(by_prompt, np.diag(expected), rtol=2e-6)


def test_prob_mixed_keeps_its_digits_for_hopeless_prompts():
  # n = 2: 2 E[p (1 - p)] = 2 a b / ((a + b) (a + b + 1)), far below 1.
  a, b = 1e-2, 1e6
  expected = 2 * a * b / ((a + b) * (a + b + 1))
  for alpha, beta in ((a, b), (b, a)):
    out = posterior.prob_mixed(jnp.float32(alpha), jnp.float32(beta), 2)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_draws_have_the_moments_of_the_beta():
  rows = 20_000
  tile = jax.tree.map(lambda x: jnp.tile(x, rows), _stats())
  draws = np.asarray(posterior.draw(tile, jax.random.key(0)), np.float64)
  draws = draws.reshape(rows, len(ALPHA))
  assert draws.min() >= 0 and draws.max() <= 1
  for column, a, b in zip(draws.T, ALPHA, BETA):
    for power in (1, 2):
      expected = float(_moment(a, b, power, 0))
      error = float(_moment(a, b, 2 * power, 0)) - expected**2
      off = abs((column**power).mean() - expected)
      assert off < 5 * math.sqrt(error / rows), (a, b, power)


def test_a_prompt_draws_by_its_id():
  stats, key = _stats(), jax.random.key(1)
  whole = posterior.draw(stats, key)
  ids = jnp.array([4, 1], jnp.int32)
  part = beta_draws.draw(stats.alpha[ids], stats.beta[ids], key, ids=ids)
  np.testing.assert_allclose(part, whole[ids], rtol=1e-6)


def test_reward_std_is_that_of_the_rewards():
  stats = posterior.observe(posterior.init(N), *ROWS, step=0)
  expected = np.zeros(N)
  expected[5] = np.std([1, 0, 1], ddof=1)
  expected[2] = np.std([2.5, -1, 0.25, 1], ddof=1)
  np.testing.assert_allclose(posterior.reward_std(stats), expected, rtol=1e-6)


# --- tally


def test_tally_in_rounds_equals_all_at_once():
  tally = posterior.tally_init(P)
  add = jax.jit(posterior.tally_add)
  for rows in (slice(0, 5), slice(5, 6), slice(6, B)):
    part = (REWARD[rows], GROUP[rows], WHERE[rows])
    tally = add(tally, *part)
  np.testing.assert_array_equal(tally.count, [3, 4, 1, 0])
  np.testing.assert_allclose(tally.success, [2, 2.25, 1, 0])
  np.testing.assert_allclose(tally.mean, [2 / 3, 2.75 / 4, 1, 0], rtol=1e-6)
  m2 = [2 / 3, 8.3125 - 2.75**2 / 4, 0, 0]
  np.testing.assert_allclose(tally.m2, m2, rtol=1e-6)
  chex.assert_trees_all_equal_dtypes(tally, posterior.tally_init(P))


def test_tally_does_not_read_what_is_no_evidence():
  dirty = jnp.where(WHERE, REWARD, jnp.nan)
  tally = posterior.tally_add(posterior.tally_init(P), dirty, GROUP, WHERE)
  chex.assert_tree_all_finite(tally)
  assert int(numerics.group_count(GROUP, P, WHERE).sum()) == 8
  assert int(tally.count.sum()) == 8
