"""maj@k and the bootstrap: votes by hand, invariants, coverage."""

import collections
import doctest
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import evaluate

RNG = np.random.default_rng(3)
N, K = 9, 6
ANSWER = RNG.integers(-1, 3, (N, K)).astype(np.int32)
# One answer a prompt is right.
CORRECT = (ANSWER == RNG.integers(0, 3, (N, 1))) & (ANSWER >= 0)
WHERE = RNG.integers(0, 4, (N, K)) > 0
WHERE[2] = False
ANSWER[4] = -1
CORRECT[4] = False


@pytest.mark.parametrize("module", ["_maj_at_k", "_bootstrap"])
def test_examples_in_the_docstrings(module):
  module = importlib.import_module(f"jaxroll.evaluate.{module}")
  result = doctest.testmod(module, extraglobs={"jnp": jnp, "jax": jax})
  assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(
  "correct, answer, expected",
  [
    ([1, 1, 0], [7, 7, 4], 1.0),
    ([1, 0, 0], [7, 4, 4], 0.0),
    ([1, 0, 0, 0], [7, 4, 2, 1], 0.25),  # four answers tie
    ([1, 1, 0, 0, 0], [7, 7, 4, 4, 1], 0.5),
    ([0, 0, 1], [-1, -1, 7], 1.0),  # no answer, no vote
    ([0, 0], [-1, -1], 0.0),
    ([1, 0, 0], [7, 7, 7], 1 / 3),  # scored differently
  ],
)
def test_maj_at_k_by_hand(correct, answer, expected):
  estimate = evaluate.maj_at_k(np.array([correct]), np.array([answer]))
  np.testing.assert_allclose(estimate.mean, expected, rtol=1e-6)
  assert (int(estimate.count), int(estimate.omitted)) == (1, 0)


def test_maj_at_k_counts_like_a_counter():
  values = []
  for correct, answer, where in zip(CORRECT, ANSWER, WHERE):
    if not where.any():
      continue
    votes = collections.Counter(answer[where & (answer >= 0)].tolist())
    most = max(votes.values(), default=0)
    winners = [a for a, n in votes.items() if n == most]
    right = set(answer[correct].tolist())
    values.append(np.mean([a in right for a in winners]) if winners else 0.0)
  estimate = evaluate.maj_at_k(CORRECT, ANSWER, WHERE)
  np.testing.assert_allclose(estimate.mean, np.mean(values), rtol=1e-6)
  error = np.std(values, ddof=1) / np.sqrt(len(values))
  np.testing.assert_allclose(estimate.standard_error, error, rtol=1e-5)
  assert (int(estimate.count), int(estimate.omitted)) == (N - 1, 1)


def test_maj_at_k_invariants():
  expected = evaluate.maj_at_k(CORRECT, ANSWER, WHERE)
  order = RNG.permutation(N)
  for other in (
    jax.jit(evaluate.maj_at_k)(CORRECT, ANSWER, WHERE),
    evaluate.maj_at_k(CORRECT[:, ::-1], ANSWER[:, ::-1], WHERE[:, ::-1]),
    evaluate.maj_at_k(CORRECT[order], ANSWER[order], WHERE[order]),
    evaluate.maj_at_k(CORRECT, np.where(ANSWER < 0, -5, 9 - ANSWER), WHERE),
    evaluate.maj_at_k(
      np.where(WHERE, CORRECT, 1), np.where(WHERE, ANSWER, 1), WHERE
    ),
  ):
    for x, y in zip(expected, other):
      np.testing.assert_allclose(x, y, rtol=1e-6)


def test_maj_at_k_refuses():
  with pytest.raises(ValueError, match="float.*threshold"):
    evaluate.maj_at_k(CORRECT.astype(np.float32), ANSWER)
  with pytest.raises(AssertionError):
    evaluate.maj_at_k(CORRECT, ANSWER[:, 1:])


# --- bootstrap


def mean(x):
  return jnp.mean(x, axis=0, dtype=jnp.float32)


def test_bootstrap_is_the_normal_interval_of_many_prompts():
  x = RNG.normal(size=(400, 2)).astype(np.float32)
  found = evaluate.bootstrap(mean, x, key=jax.random.key(0), resamples=4000)
  error = x.std(axis=0, ddof=1) / 20
  for end, side in ((found.low, -1), (found.high, 1)):
    np.testing.assert_allclose(
      end, x.mean(axis=0) + side * 1.96 * error, atol=0.15 * error.min()
    )


def test_bootstrap_covers_as_often_as_it_says():
  # 200 experiments: binomial standard deviation sqrt(0.9 * 0.1 / 200) = 0.021.
  x = RNG.normal(size=(200, 100)).astype(np.float32)
  cover = jax.vmap(
    lambda key, x: evaluate.bootstrap(
      mean, x, key=key, resamples=200, level=0.9
    )
  )(jax.random.split(jax.random.key(1), 200), x)
  share = np.mean((np.array(cover.low) < 0) & (np.array(cover.high) > 0))
  assert abs(share - 0.9) < 5 * 0.021


def test_bootstrap_keeps_a_prompt_together_and_leaves_nan_out():
  # Two prompts of fixed outcome: the mean is 0, 1/2 or 1, whatever k is.
  x = np.repeat([[0.0], [1.0]], 1000, axis=1).astype(np.float32)
  found = evaluate.bootstrap(jnp.mean, x, key=jax.random.key(0))
  assert (float(found.low), float(found.high)) == (0.0, 1.0)

  def defined(x, y):
    return jnp.where(y.any(), mean(x), jnp.nan)

  found = evaluate.bootstrap(
    defined, np.ones(2, np.float32), np.array([0, 1]), key=jax.random.key(0)
  )
  assert (float(found.low), float(found.high)) == (1.0, 1.0)
  alone = evaluate.bootstrap(mean, x[:1, 0], key=jax.random.key(0))
  assert np.isnan(alone.low) and np.isnan(alone.high)


@pytest.mark.parametrize(
  "changes, message",
  [({"resamples": 99}, "resamples=99"), ({"level": 1.0}, "level=1.0")],
)
def test_bootstrap_refuses(changes, message):
  with pytest.raises(ValueError, match=message):
    evaluate.bootstrap(mean, np.ones(3), key=jax.random.key(0), **changes)
  with pytest.raises(ValueError, match="no arrays"):
    evaluate.bootstrap(mean, key=jax.random.key(0))
