"""Which of several findings hold when all of them were looked for?

With m p-values in ascending order p_(1) <= ... <= p_(m), Holm's adjusted ones

  q_(i) = max_{j <= i} min(1, (m - j + 1) p_(j))

keep the chance of any false finding at alpha where q <= alpha is the rule, for
p-values that depend on each other in any way: methods that share a baseline do.
"""

import numpy as np


def holm(p_values) -> np.ndarray:
  """p-values adjusted for all of them being tests of one family.

  Args:
    p_values: [m], in [0, 1].

  Returns:
    f64[m], in the same order, each at least its p-value; ties stay ties.

  Raises:
    ValueError: a p-value that is none.

  Example:
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]

  Reference:
    Holm 1979, Scandinavian Journal of Statistics 6(2).
  """
  p_values = np.asarray(p_values, float).reshape(-1)
  wrong = p_values[~((p_values >= 0) & (p_values <= 1))]
  if len(wrong):
    raise ValueError(f"p_values={wrong.tolist()}: must be in [0, 1]")
  order = np.argsort(p_values, kind="stable")
  left = len(p_values) - np.arange(len(p_values))
  stepped = np.maximum.accumulate(np.minimum(1.0, left * p_values[order]))
  adjusted = np.empty_like(stepped)
  adjusted[order] = stepped
  return adjusted
