"""Is one method better than another, over paired seeds?

With differences d_s of S seeds that both methods share, mean m, standard
deviation s (S - 1), standard error e = s / sqrt(S) and t quantiles of S - 1
degrees of freedom:

  interval         m -+ t_{(1 + level) / 2} e
  difference       two-sided paired t test of E[d] = 0
  equivalence      two one-sided tests of |E[d]| >= margin (Schuirmann 1987):
                   p = max(P(T > (margin + m) / e), P(T > (margin - m) / e))
  least detected   the |E[d]| that the two-sided test at 1 - level finds with
                   the wanted power: T is then noncentral with |E[d]| / e

Host code: float64, whatever the arrays are.
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize, stats


class Paired(NamedTuple):
  """A mean paired difference.

  Attributes:
    difference: mean over pairs, NaN without a pair.
    low, high: ends of its t interval, NaN for fewer than two pairs.
    standard_error: of the mean, NaN for fewer than two pairs.
    p_value: two-sided, 1 for fewer than two pairs, which show nothing.
    count: pairs in it. omitted: pairs with a value that is not finite.
  """

  difference: float
  low: float
  high: float
  standard_error: float
  p_value: float
  count: int
  omitted: int


def paired(treatment, baseline, *, level: float = 0.95) -> Paired:
  """Mean difference of two methods over the seeds that both have.

  Args:
    treatment: [S], a seed's value with the method.
    baseline: [S], with the baseline; same seeds in the same order.
    level: of the interval, in (0, 1).

  Returns:
    `Paired`. Pairs with a value that is not finite are left out and counted.
    Equal differences have a standard error of 0: the p-value is then 0, or 1
    where they are all 0.

  Raises:
    ValueError: level out of its range, or two lengths.

  Example:
    >>> found = paired([1.2, 0.4, 2.0, 1.1], [1.0, 0.9, 1.1, 1.0])
    >>> print(f"{found.difference:.3f} [{found.low:.6f}, {found.high:.6f}]")
    0.175 [-0.737933, 1.087933]

  Reference:
    Student 1908, Biometrika 6(1).
  """
  _check_level(level)
  treatment, baseline = (
    np.asarray(treatment, float),
    np.asarray(baseline, float),
  )
  if treatment.ndim != 1 or treatment.shape != baseline.shape:
    raise ValueError(
      f"shapes {treatment.shape} and {baseline.shape}: give one value of each "
      "method for each seed, [S] twice"
    )
  known = np.isfinite(treatment) & np.isfinite(baseline)
  values = treatment[known] - baseline[known]
  count, omitted = len(values), int(np.sum(~known))
  if count < 2:
    mean = float(values[0]) if count else np.nan
    return Paired(mean, np.nan, np.nan, np.nan, 1.0, count, omitted)
  mean = float(np.mean(values))
  error = float(np.std(values, ddof=1) / np.sqrt(count))
  reach = float(stats.t.ppf((1 + level) / 2, count - 1)) * error
  p_value = 2 * _beyond(abs(mean), error, count)
  return Paired(
    mean, mean - reach, mean + reach, error, min(1.0, p_value), count, omitted
  )


def equivalence(found: Paired, margin: float) -> float:
  """p-value of the difference being outside of -margin ... margin.

  Args:
    found: of `paired`.
    margin: the largest difference that does not matter, > 0.

  Returns:
    p in [0, 1]; 1 for fewer than two pairs, which show nothing. Below 0.05 the
    two methods are equivalent: the 90 % interval lies within the margin.

  Raises:
    ValueError: margin is not above 0.

  Example:
    >>> found = paired([0.50, 0.53, 0.52, 0.49], [0.51, 0.52, 0.51, 0.50])
    >>> equivalence(found, 0.05) < 0.01
    True

  Reference:
    Schuirmann 1987, J. Pharmacokinetics and Biopharmaceutics 15(6).
  """
  if not margin > 0:
    raise ValueError(f"margin={margin}: must be greater than 0")
  if found.count < 2:
    return 1.0
  return max(
    _beyond(margin + found.difference, found.standard_error, found.count),
    _beyond(margin - found.difference, found.standard_error, found.count),
  )


def minimum_detectable(
  found: Paired, *, power: float = 0.8, level: float = 0.95
) -> float:
  """The difference that such an experiment finds with the wanted power.

  Exact for normal differences (noncentral t), with the standard error that was
  found in place of the true one.

  Args:
    found: of `paired`.
    power: in (1 - level, 1).
    level: of the two-sided test, in (0, 1); 1 - 0.05 / m for one of m methods
      under a correction for all of them.

  Returns:
    The least absolute difference; NaN for fewer than two pairs.

  Raises:
    ValueError: a number out of its range.

  Example:
    >>> found = paired([1.2, 0.4, 2.0, 1.1], [1.0, 0.9, 1.1, 1.0])
    >>> print(f"{minimum_detectable(found):.2f}")
    1.22

  Reference:
    Cohen 1988, Statistical power analysis, chapter 2.
  """
  _check_level(level)
  if not 1 - level < power < 1:
    raise ValueError(f"power={power}: must be in ({1 - level:.4g}, 1)")
  if found.count < 2:
    return np.nan
  freedom = found.count - 1
  least = stats.t.ppf((1 + level) / 2, freedom)

  def missing(shift):
    above = stats.nct.sf(least, freedom, shift)
    return above + stats.nct.sf(least, freedom, -shift) - power

  # Such a shift is found almost surely, in any number of pairs.
  shift = optimize.brentq(missing, 1e-9, 10 * least + 10)
  return float(shift * found.standard_error)


def _beyond(value, error, count):
  """P(T > value / error), its limit where the error is 0."""
  if error == 0:
    return 0.0 if value > 0 else (1.0 if value < 0 else 0.5)
  return float(stats.t.sf(value / error, count - 1))


def _check_level(level):
  if not 0 < level < 1:
    raise ValueError(f"level={level}: must be in (0, 1)")
