"""evaluate: hand-worked values, exact enumeration, uneven samples."""

import doctest
import functools
import importlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import evaluate

N, SAMPLES = 7, 6
RNG = np.random.default_rng(0)
CORRECT = RNG.integers(0, 2, size=(N, SAMPLES))
WHERE = RNG.integers(0, 4, size=(N, SAMPLES)) > 0
WHERE[2] = False  # nothing of prompt 2 was scored
WHERE[3, 2:] = False  # two samples of prompt 3
GRADE = np.array([0, 1, 1, 0, 3, 1, 0])

FUNCTIONS = {
  "avg_at_k": evaluate.avg_at_k,
  "pass_at_1": functools.partial(evaluate.pass_at_k, k=1),
  "pass_at_3": functools.partial(evaluate.pass_at_k, k=3),
  "solve_rate_by_grade": lambda correct, where=None, grade=GRADE: (
    evaluate.solve_rate_by_grade(correct, grade, 4, where)
  ),
}


def _samples(n, c):
  return np.arange(n)[None] < c


def _assert_same(a, b, rtol=1e-6):
  assert a._fields == b._fields
  for name, x, y in zip(a._fields, a, b):
    np.testing.assert_allclose(x, y, rtol=rtol, err_msg=name)


@pytest.mark.parametrize(
  "module", ["_avg_at_k", "_pass_at_k", "_solve_rate_by_grade"]
)
def test_examples_in_the_docstrings(module):
  module = importlib.import_module(f"jaxroll.evaluate.{module}")
  result = doctest.testmod(module, extraglobs={"jnp": jnp})
  assert result.attempted > 0 and result.failed == 0


# --- pass@k


@pytest.mark.parametrize(
  "n, c, k, expected",
  [
    (4, 1, 4, 1.0),
    (10, 3, 5, 1 - 21 / 252),  # C(7, 5) = 21, C(10, 5) = 252
    (10, 3, 1, 0.3),
    (6, 0, 6, 0.0),
    (6, 6, 1, 1.0),
  ],
)
def test_pass_at_k_by_hand(n, c, k, expected):
  estimate = evaluate.pass_at_k(_samples(n, c), k)
  np.testing.assert_allclose(estimate.mean, expected, rtol=1e-6)
  assert (int(estimate.count), int(estimate.omitted)) == (1, 0)
  assert np.isnan(estimate.standard_error)  # one prompt has no spread


def test_pass_at_k_with_too_few_samples_is_undefined():
  estimate = evaluate.pass_at_k(_samples(2, 0), 5)
  assert np.isnan(estimate.mean)
  assert (int(estimate.count), int(estimate.omitted)) == (0, 1)


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(k):
  values = []
  for correct, where in zip(CORRECT, WHERE):
    scored = correct[where]
    if len(scored) >= k:
      subsets = itertools.combinations(scored, k)
      values.append(np.mean([max(subset) for subset in subsets]))
  estimate = evaluate.pass_at_k(CORRECT, k, WHERE)
  count = len(values)
  error = np.std(values, ddof=1) / np.sqrt(count) if count > 1 else np.nan
  mean = np.mean(values) if count else np.nan
  expected = evaluate.Estimate(mean, error, count, N - count)
  _assert_same(estimate, expected, rtol=2e-6)


def test_pass_at_k_of_many_samples_keeps_its_digits():
  # 1 - (n - k) / n = k / n for one right sample.
  estimate = evaluate.pass_at_k(_samples(1024, 1), 256)
  np.testing.assert_allclose(estimate.mean, 0.25, rtol=1e-4)


def test_pass_at_1_is_avg_at_k():
  for where in (None, WHERE):
    _assert_same(
      evaluate.pass_at_k(CORRECT, 1, where), evaluate.avg_at_k(CORRECT, where)
    )


def test_standard_error_is_clustered_by_prompt():
  # Two prompts of fixed outcome: 2000 samples, but only two prompts.
  correct = np.repeat([[1], [0]], 1000, axis=1)
  estimate = evaluate.pass_at_k(correct, 1)
  np.testing.assert_allclose(estimate.mean, 0.5)
  np.testing.assert_allclose(estimate.standard_error, 0.5, rtol=1e-6)


def test_bad_arguments_are_refused():
  with pytest.raises(ValueError, match="k=0: .* k >= 1"):
    evaluate.pass_at_k(CORRECT, 0)
  for fn in (FUNCTIONS["pass_at_3"], FUNCTIONS["solve_rate_by_grade"]):
    with pytest.raises(ValueError, match="float.*threshold"):
      fn(CORRECT.astype(np.float32))
  with pytest.raises(AssertionError):
    evaluate.avg_at_k(CORRECT, WHERE[:, :1])


# --- avg@k and grades


def test_avg_at_k_of_scores_weighs_prompts_alike():
  score = np.array([[2.0, -1.0, 0.5], [4.0, 9.0, 9.0]], np.float32)
  where = np.array([[True, True, True], [True, False, False]])
  estimate = evaluate.avg_at_k(score, where)
  np.testing.assert_allclose(estimate.mean, (0.5 + 4.0) / 2)
  # Two values x, y: std(ddof=1) / sqrt(2) = |x - y| / 2.
  np.testing.assert_allclose(estimate.standard_error, 1.75, rtol=1e-6)


def test_solve_rate_by_grade_is_the_estimate_of_each_grade():
  estimate = FUNCTIONS["solve_rate_by_grade"](CORRECT, WHERE)
  for grade in (0, 1, 3):
    values = [
      CORRECT[i, WHERE[i]].mean()
      for i in range(N)
      if GRADE[i] == grade and WHERE[i].any()
    ]
    np.testing.assert_allclose(estimate.mean[grade], np.mean(values), 1e-6)
    error = np.nan
    if len(values) > 1:
      error = np.std(values, ddof=1) / np.sqrt(len(values))
    np.testing.assert_allclose(estimate.standard_error[grade], error, 1e-5)
  np.testing.assert_array_equal(estimate.count, [3, 2, 0, 1])
  np.testing.assert_array_equal(estimate.omitted, [0, 1, 0, 0])
  assert np.isnan(estimate.mean[2])


# --- every function


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jit_permutation_and_unread_samples(name):
  fn = FUNCTIONS[name]
  expected = fn(CORRECT, where=WHERE)
  jitted = jax.jit(lambda correct, where: fn(correct, where=where))
  _assert_same(jitted(CORRECT, WHERE), expected)
  _assert_same(fn(np.where(WHERE, CORRECT, 77), where=WHERE), expected)
  _assert_same(fn(CORRECT[:, ::-1], where=WHERE[:, ::-1]), expected)
  order = np.array([3, 0, 6, 1, 5, 4, 2])
  grade = {"grade": GRADE[order]} if name == "solve_rate_by_grade" else {}
  permuted = fn(CORRECT[order], where=WHERE[order], **grade)
  _assert_same(permuted, expected)
  assert [x.dtype for x in expected] == [jnp.float32] * 2 + [jnp.int32] * 2
