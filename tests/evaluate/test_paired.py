"""Paired differences, Holm's correction, curves: values worked by hand."""

import doctest
import importlib

import numpy as np
import pytest

from jaxroll import evaluate

TREATMENT, BASELINE = [1.2, 0.4, 2.0, 1.1], [1.0, 0.9, 1.1, 1.0]


@pytest.mark.parametrize("module", ["_paired", "_holm", "_curves"])
def test_examples_in_the_docstrings(module):
  module = importlib.import_module(f"jaxroll.evaluate.{module}")
  result = doctest.testmod(module)
  assert result.attempted > 0 and result.failed == 0


# --- paired


def test_interval_by_hand():
  """Differences .2, -.5, .9, .1: s = .573730, t_{.975, 3} = 3.182446."""
  found = evaluate.paired(TREATMENT, BASELINE)
  np.testing.assert_allclose(
    [found.difference, found.low, found.high, found.standard_error],
    [0.175, -0.737933, 1.087933, 0.286865],
    atol=5e-7,
  )
  assert (found.count, found.omitted) == (4, 0)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_p_value_and_interval_say_the_same(level):
  """0 is just outside of an interval of level 1 - p."""
  found = evaluate.paired(TREATMENT, BASELINE)
  at = evaluate.paired(TREATMENT, BASELINE, level=1 - found.p_value)
  np.testing.assert_allclose(at.low, 0.0, atol=1e-9)
  inside = evaluate.paired(TREATMENT, BASELINE, level=level).low < 0
  assert inside == (level > 1 - found.p_value)


def test_swapping_the_methods_turns_the_sign():
  found = evaluate.paired(TREATMENT, BASELINE)
  back = evaluate.paired(BASELINE, TREATMENT)
  assert back.difference == -found.difference
  np.testing.assert_allclose((back.low, back.high), (-found.high, -found.low))
  assert back.p_value == found.p_value


def test_what_the_seeds_share_cancels():
  common = np.array([10.0, -3.0, 5.0, 100.0])
  found = evaluate.paired(common + TREATMENT, common + BASELINE)
  expected = evaluate.paired(TREATMENT, BASELINE)
  np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_pairs_without_a_value_are_left_out_and_counted():
  found = evaluate.paired([*TREATMENT, np.nan, 1.0], [*BASELINE, 1.0, np.inf])
  expected = evaluate.paired(TREATMENT, BASELINE)
  assert found == expected._replace(omitted=2)


@pytest.mark.parametrize(
  "differences, mean, p_value",
  [([], np.nan, 1.0), ([0.3], 0.3, 1.0)],
)
def test_fewer_than_two_pairs_show_nothing(differences, mean, p_value):
  found = evaluate.paired(differences, np.zeros(len(differences)))
  np.testing.assert_array_equal(found.difference, mean)
  assert np.isnan([found.low, found.high, found.standard_error]).all()
  assert found.p_value == p_value
  assert evaluate.equivalence(found, 1.0) == 1.0
  assert np.isnan(evaluate.minimum_detectable(found))


def test_equal_differences():
  same = evaluate.paired([0.5, 0.5], [0.5, 0.5])
  assert (same.low, same.high, same.p_value) == (0.0, 0.0, 1.0)
  assert evaluate.equivalence(same, 0.01) == 0.0
  assert evaluate.minimum_detectable(same) == 0.0
  apart = evaluate.paired([1.0, 1.0], [0.5, 0.5])
  assert (apart.low, apart.high, apart.p_value) == (0.5, 0.5, 0.0)
  assert evaluate.equivalence(apart, 0.1) == 1.0


def test_equivalence_is_the_90_percent_interval_within_the_margin():
  found = evaluate.paired(TREATMENT, BASELINE)
  ends = evaluate.paired(TREATMENT, BASELINE, level=0.9)
  widest = max(-ends.low, ends.high)
  np.testing.assert_allclose(evaluate.equivalence(found, widest), 0.05)
  assert evaluate.equivalence(found, 1.01 * widest) < 0.05
  assert evaluate.equivalence(found, 0.99 * widest) > 0.05


@pytest.mark.parametrize(
  "count, effect",
  # Cohen's tables for a two-sided paired test at 0.05, power 0.8.
  [(8, 1.155), (34, 0.4946), (199, 0.1995)],
)
def test_minimum_detectable_of_the_power_tables(count, effect):
  found = evaluate.Paired(0.0, 0, 0, 1 / np.sqrt(count), 1.0, count, 0)
  np.testing.assert_allclose(
    evaluate.minimum_detectable(found), effect, rtol=5e-3
  )


def test_minimum_detectable_grows_with_power_and_level():
  found = evaluate.paired(TREATMENT, BASELINE)
  least = evaluate.minimum_detectable(found)
  assert evaluate.minimum_detectable(found, power=0.9) > least
  assert evaluate.minimum_detectable(found, level=1 - 0.05 / 7) > least


@pytest.mark.parametrize(
  "call, message",
  [
    (lambda found: evaluate.paired([1.0], [1.0, 2.0]), "one value of each"),
    (lambda found: evaluate.paired([1.0], [1.0], level=1.0), "level=1.0"),
    (lambda found: evaluate.equivalence(found, 0.0), "margin=0.0: must be"),
    (lambda found: evaluate.minimum_detectable(found, power=1.0), "power=1.0"),
    (
      lambda found: evaluate.minimum_detectable(found, power=0.01),
      r"power=0.01: must be in \(0.05, 1\)",
    ),
    (lambda found: evaluate.holm([0.5, 1.5]), r"p_values=\[1.5\]"),
    (lambda found: evaluate.holm([np.nan]), r"p_values=\[nan\]"),
    (lambda found: evaluate.at_cost([0, 9], [0, 1], 10), "from 0 to 9; lower"),
    (lambda found: evaluate.cost_to([3, 1], [0, 1], 1), "costs must ascend"),
    (lambda found: evaluate.cost_to([], [], 1), "one value for each cost"),
  ],
)
def test_refused(call, message):
  with pytest.raises(ValueError, match=message):
    call(evaluate.paired(TREATMENT, BASELINE))


# --- Holm


def test_holm_by_hand():
  """4 x .005, 3 x .01, 2 x .03, then .04 is raised to the last one's .06."""
  adjusted = evaluate.holm([0.01, 0.04, 0.03, 0.005])
  np.testing.assert_allclose(adjusted, [0.03, 0.06, 0.06, 0.02])


def test_holm_of_one_of_ties_and_of_none():
  assert evaluate.holm([0.04]).tolist() == [0.04]
  assert evaluate.holm([0.02, 0.02]).tolist() == [0.04, 0.04]
  assert evaluate.holm([0.9, 1.0]).tolist() == [1.0, 1.0]
  assert evaluate.holm([]).shape == (0,)


# --- curves


@pytest.mark.parametrize(
  "budget, value", [(0, 0.1), (50, 0.2), (100, 0.3), (200, 0.25), (300, 0.2)]
)
def test_value_at_a_cost(budget, value):
  found = evaluate.at_cost([0, 100, 300], [0.1, 0.3, 0.2], budget)
  np.testing.assert_allclose(found, value)


@pytest.mark.parametrize(
  "target, cost",
  [(0.05, 0), (0.1, 0), (0.2, 50), (0.3, 100), (0.35, 350), (0.5, np.inf)],
)
def test_cost_of_a_value_is_that_of_its_first_crossing(target, cost):
  curve = [0, 100, 300, 400], [0.1, 0.3, 0.2, 0.5 - 1e-9]
  np.testing.assert_allclose(evaluate.cost_to(*curve, target), cost, rtol=1e-6)


def test_a_missing_evaluation_is_not_interpolated_over():
  assert evaluate.cost_to([0, 1, 2], [0.0, np.nan, 1.0], 0.5) == 2.0
