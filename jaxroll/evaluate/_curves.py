"""What does a curve of quality over cost say at a cost, or at a quality?

Methods spend different amounts in a step, so their evaluations stand at
different costs. Both questions are answered by linear interpolation between
neighbouring evaluations. Host code.
"""

import numpy as np


def at_cost(cost, value, budget: float) -> float:
  """The value that a curve has when exactly the budget is spent.

  Args:
    cost: [E], what was spent until each evaluation, ascending.
    value: [E], what each evaluation found.
    budget: within the curve's costs.

  Returns:
    The value; NaN where a neighbouring one is not finite.

  Raises:
    ValueError: the curve ends before the budget, or is none.

  Example:
    >>> at_cost([0, 100, 300], [0.0, 0.25, 0.75], 200)
    0.5
  """
  cost, value = _curve(cost, value)
  if not cost[0] <= budget <= cost[-1]:
    raise ValueError(
      f"budget={budget}: the curve goes from {cost[0]:g} to {cost[-1]:g}; "
      "lower the budget or train longer"
    )
  return float(np.interp(budget, cost, value))


def cost_to(cost, value, target: float) -> float:
  """What is spent when a curve first reaches the target.

  Args:
    cost: [E], what was spent until each evaluation, ascending.
    value: [E], what each evaluation found.
    target: the value to be reached.

  Returns:
    The cost; infinity where the target is never reached: the run is censored.

  Raises:
    ValueError: cost and value are no curve.

  Example:
    >>> cost_to([0, 100, 300], [0.0, 0.25, 0.75], 0.5)
    200.0
  """
  cost, value = _curve(cost, value)
  reached = np.flatnonzero(value >= target)
  if not len(reached):
    return float("inf")
  first = reached[0]
  if first == 0 or not np.isfinite(value[first - 1]):
    return float(cost[first])
  before, after = value[first - 1], value[first]
  share = (target - before) / (after - before)
  return float(cost[first - 1] + share * (cost[first] - cost[first - 1]))


def _curve(cost, value):
  cost, value = np.asarray(cost, float), np.asarray(value, float)
  if cost.ndim != 1 or cost.shape != value.shape or not len(cost):
    raise ValueError(
      f"shapes {cost.shape} and {value.shape}: give one value for each cost"
    )
  if np.any(np.diff(cost) < 0):
    raise ValueError("costs must ascend: give what was spent until each value")
  return cost, value
