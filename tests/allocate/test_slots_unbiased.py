"""Stops that outcomes decide: the mean is biased, the estimator is not."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll.allocate import unbiased

MIXED = unbiased.until_mixed()


def endings(stop, cap):
  """Every sequence of outcomes that the rule ends: tuples of 0 and 1."""
  found, open_ = [], [()]
  while open_:
    longer = [seq + (x,) for seq in open_ for x in (0, 1)]
    ended = [len(q) == cap or stop(sum(q), len(q) - sum(q)) for q in longer]
    found += [q for q, end in zip(longer, ended) if end]
    open_ = [q for q, end in zip(longer, ended) if not end]
  return found


@functools.cache
def counts_of(stop, cap):
  sequences = endings(stop, cap)
  success = np.array([sum(q) for q in sequences], np.int32)
  return success, np.array([len(q) for q in sequences], np.int32)


def expectation(values, success, count, p):
  """Over all sequences; each has probability p^s (1 - p)^(n - s)."""
  values = np.asarray(values, np.float64)
  return float(np.sum(p**success * (1 - p) ** (count - success) * values))


@pytest.mark.parametrize("p, mean", [(0.1, 0.207), (0.3, 0.384)])
def test_first_mixed_outcome_at_cap_32(p, mean):
  success, count = counts_of(MIXED, 32)
  assert expectation(np.ones(len(count)), success, count, p) == pytest.approx(1)
  naive = expectation(success / count, success, count, p)
  assert naive == pytest.approx(mean, abs=5e-4)
  fair = unbiased.rate(
    jnp.asarray(success), jnp.asarray(count), stop=MIXED, cap=32
  )
  assert expectation(fair, success, count, p) == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize(
  "stop",
  [
    unbiased.until_mixed(),
    unbiased.until_mixed(2),
    unbiased.until_mixed(3),
    unbiased.until_successes(2),
    unbiased.until_successes(4),
    # A rule of one's own: ahead by two, either way.
    lambda s, f: abs(s - f) >= 2,
  ],
)
def test_exact_enumeration(stop):
  success, count = counts_of(stop, 10)
  fair = unbiased.rate(
    jnp.asarray(success), jnp.asarray(count), stop=stop, cap=10
  )
  biased = []
  for p in (0.05, 0.3, 0.5, 0.8):
    assert expectation(fair, success, count, p) == pytest.approx(p, abs=1e-6)
    biased.append(abs(expectation(success / count, success, count, p) - p))
  assert max(biased) > 0.01


def test_inverse_binomial_is_the_textbook_estimator():
  """(r - 1) / (n - 1) at the stop, s / n where the cap came first."""
  success, count = counts_of(unbiased.until_successes(3), 9)
  fair = unbiased.rate(
    jnp.asarray(success),
    jnp.asarray(count),
    stop=unbiased.until_successes(3),
    cap=9,
  )
  expected = np.where(success == 3, 2 / (count - 1), success / count)
  np.testing.assert_allclose(fair, expected, rtol=1e-6)


def test_without_a_rule_it_is_the_mean():
  success, count = counts_of(lambda s, f: False, 6)
  table = unbiased.rate(
    jnp.asarray(success),
    jnp.asarray(count),
    stop=lambda s, f: False,
    cap=6,
  )
  np.testing.assert_allclose(table, success / count, rtol=1e-6)


def test_conditional_share_of_first_successes():
  """By counting the sequences themselves."""
  stop = unbiased.until_mixed(2)
  sequences = endings(stop, 8)
  for s, n in itertools.product(range(9), range(1, 9)):
    same = [q for q in sequences if (sum(q), len(q)) == (s, n)]
    if same:
      value = unbiased.rate(jnp.int32(s), jnp.int32(n), stop=stop, cap=8)
      share = sum(q[0] for q in same) / len(same)
      assert float(value) == pytest.approx(share, abs=1e-6)


def test_counts_that_the_rule_forbids_fall_back_to_the_mean():
  success = jnp.array([2, 0, 20], jnp.int32)
  count = jnp.array([4, 0, 40], jnp.int32)
  run = jax.jit(functools.partial(unbiased.rate, stop=MIXED, cap=8))
  assert run(success, count).tolist() == [0.5, 0.0, 0.5]


def test_bad_numbers_are_refused():
  with pytest.raises(ValueError, match="cap=0"):
    unbiased.rate(jnp.int32(0), jnp.int32(0), stop=MIXED, cap=0)
  with pytest.raises(ValueError, match="balance=0"):
    unbiased.until_mixed(0)
  with pytest.raises(ValueError, match="r=1"):
    unbiased.until_successes(1)
