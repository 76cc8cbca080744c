"""What do the cells of all methods and seeds say together?

Each seed gives a paired difference to the baseline, taken where exactly the
budget is spent. All methods are one family of tests: p-values, of a difference
and of equivalence, are Holm's. A method that differs on no seed is no test.
"""

import math
from typing import NamedTuple

import numpy as np

from experiments import claims
from jaxroll import evaluate

ALPHA = 0.05
BETTER, WORSE, EQUIVALENT = "better", "worse", "equivalent"
UNDECIDED, BASELINE, FAILED = "undecided", "baseline", "failed"
# No seed differs: the method could not act here, or only rescales updates that
# are rescaled anyway. Nothing was measured of it, and it is no test.
IDENTICAL = "identical"

# Means over seeds that a record holds.
_MEANS = (
  "rollouts",
  "tokens",
  "steps",
  "mixed_rollout_share",
  "zero_variance_share",
  "update_norm",
  "seconds",
)


class Question(NamedTuple):
  """What is asked of the cells.

  Attributes:
    task: its name, for readers. metric: of the curves.
    unit: "rollouts" or "tokens". budget: of that unit.
    step_size: "matched", "tuned" or "fixed".
    margin: the largest difference that does not matter, > 0.
    power: that the minimum detectable effect is for.
    target: of the metric, for the cost to reach it; None takes
    target_share: of the baseline's mean gain.
  """

  task: str
  metric: str
  unit: str
  budget: float
  step_size: str
  margin: float
  power: float
  target: float | None
  target_share: float


def records(
  of: Question, cells: dict, baseline: str, failures: dict | None = None
) -> list[dict]:
  """One record a method, the baseline's first.

  Args:
    of: what is asked.
    cells: recipe -> list of finished cells, one a seed, in the same order.
    baseline: the recipe that the others are compared to.
    failures: recipe -> why it has no cells.

  Returns:
    JSON values; numbers that do not exist are None.
  """
  final = {
    name: [_at_budget(of, cell) for cell in some]
    for name, some in cells.items()
  }
  target = _target(of, cells[baseline], final[baseline])
  costs = {
    name: [_cost_to(of, cell, target) for cell in some]
    for name, some in cells.items()
  }
  others = [name for name in cells if name != baseline]
  alike = {
    name: np.allclose(final[name], final[baseline], rtol=0, atol=1e-6)
    for name in others
  }
  others.sort(key=alike.get)  # tests first
  pairs = [
    evaluate.paired(final[name], final[baseline])
    for name in others
    if not alike[name]
  ]
  different = evaluate.holm([pair.p_value for pair in pairs])
  same = evaluate.holm([evaluate.equivalence(p, of.margin) for p in pairs])
  found = [_record(of, baseline, cells, final, costs, target)]
  found[0] |= {"verdict": BASELINE, "difference": 0.0, "low": 0.0, "high": 0.0}
  for place, (name, pair) in enumerate(zip(others, pairs)):
    record = _record(of, name, cells, final, costs, target)
    record |= {
      "difference": pair.difference,
      "low": pair.low,
      "high": pair.high,
      "omitted": pair.omitted,
      "p_value": pair.p_value,
      "p_holm": float(different[place]),
      "p_equivalent": float(same[place]),
      # What the strictest step of Holm's correction would find.
      "minimum_detectable": evaluate.minimum_detectable(
        pair, power=of.power, level=1 - ALPHA / len(pairs)
      ),
      "verdict": verdict(pair.difference, different[place], same[place]),
    }
    record |= _to_target(costs[name], costs[baseline])
    found.append(record)
  for name in others[len(pairs) :]:
    record = _record(of, name, cells, final, costs, target)
    record |= {"verdict": IDENTICAL, "difference": 0.0, "low": 0.0, "high": 0.0}
    found.append(record | _to_target(costs[name], costs[baseline]))
  for name, reason in (failures or {}).items():
    found.append(_about(of, name) | {"verdict": FAILED, "error": reason})
  return [{k: _null(x) for k, x in record.items()} for record in found]


def verdict(difference: float, p_different: float, p_same: float) -> str:
  """A word for a method, after correction for all methods.

  A difference that is shown to lie within the margin does not matter, however
  surely it is there.

  Args:
    difference: to the baseline; more is better.
    p_different: Holm's p-value of no difference.
    p_same: Holm's p-value of a difference beyond the margin.

  Returns:
    "better", "worse", "equivalent" or "undecided".
  """
  if p_same < ALPHA:
    return EQUIVALENT
  if p_different < ALPHA:
    return BETTER if difference > 0 else WORSE
  return UNDECIDED


def _about(of: Question, name) -> dict:
  claim = claims.CLAIMS.get(name, claims.NONE)
  return {
    "method": name,
    "paper": claim.paper,
    "claim": claim.text,
    "task": of.task,
    "metric": of.metric,
    "budget": of.budget,
    "budget_unit": of.unit,
    "step_size": of.step_size,
    "margin": of.margin,
  }


def _record(of: Question, name, cells, final, costs, target) -> dict:
  some = cells[name]
  reached = np.isfinite(costs[name])
  return _about(of, name) | {
    "seeds": len(some),
    "ended": sum(c["ended"] is not None for c in some),
    "value": float(np.mean(final[name])),
    "start": float(np.mean([c["curve"][of.metric][0] for c in some])),
    "learning_rate": some[0]["learning_rate"],
    "target": target,
    "reached": int(np.sum(reached)),
    "cost_to_target": float(np.median(costs[name])),
    **{k: float(np.mean([c[k] for c in some])) for k in _MEANS},
  }


def _at_budget(of: Question, cell) -> float:
  curve = cell["curve"]
  return evaluate.at_cost(curve[of.unit], curve[of.metric], of.budget)


def _target(of: Question, some, final) -> float:
  if of.target is not None:
    return of.target
  start = float(np.mean([cell["curve"][of.metric][0] for cell in some]))
  return start + of.target_share * (float(np.mean(final)) - start)


def _cost_to(of: Question, cell, target) -> float:
  """Cost until the target; infinite where it is not reached in the budget."""
  curve = cell["curve"]
  cost = evaluate.cost_to(curve[of.unit], curve[of.metric], target)
  return cost if cost <= of.budget else math.inf


def _to_target(costs, baseline) -> dict:
  """Ratio of the costs to reach the target, over seeds where both did."""
  # A seed that begins at the target has no ratio.
  both = [
    (a, b) for a, b in zip(costs, baseline) if math.isfinite(a + b) and a * b
  ]
  ratio = evaluate.paired(
    [math.log(a) for a, _ in both], [math.log(b) for _, b in both]
  )
  names = ("to_target_ratio", "to_target_low", "to_target_high")
  ends = (ratio.difference, ratio.low, ratio.high)
  out = {name: float(np.exp(x)) for name, x in zip(names, ends)}
  return out | {
    "to_target_pairs": len(both),
    "censored": int(np.sum(~np.isfinite(costs))),
    "censored_baseline": int(np.sum(~np.isfinite(baseline))),
  }


def _null(value):
  """JSON has no NaN and no infinity."""
  if isinstance(value, float) and not math.isfinite(value):
    return None
  return value
