"""Which rows are trained on, and which leave the step?

A keep function is a test of rows; a recipe holds a chain of them, joined by
`and`, and removes what is not kept from the baseline, the loss and the
denominators alike:

  (group i32[B], ... columns) -> bool[B], True = kept

Letters: B rows of the step, P prompts.

Invariants, tested for every function of `__all__`: a function that takes
`valid` keeps nothing that is not valid (the caller removes the rest), rewards
of rows that are not valid are never read, and no group depends on another (not
so for `cbs` and `top_advantage`, whose rows compete over the whole step).

A recipe's `keep` stands before the advantages and `keep_loss` after them: there
the rows that leave stay in the baseline. Each docstring says which place its
paper takes. `cbs` has a memory and makes a `types.Method`. `keep.segments`
holds tests of traces by the values of their prefixes, for loops of their own.

| function          | keeps                                | paper             |
|-------------------|--------------------------------------|-------------------|
| `aero`            | as many wrong rows as right ones     | AERO 2026         |
| `balanced`        | as many right rows as wrong ones     | Orchard 2026      |
| `cbs`             | rows that a learned net scores high  | CBS 2026          |
| `committed`       | groups that hold carried rows        | Pilot-Commit 2026 |
| `difficulty_band` | groups of a middling pass rate       | DataFlex-RL 2026  |
| `efficient`       | k rows of most reward by token       | GFPO 2025         |
| `max_variance`    | n rows of most unequal rewards       | PODS 2025         |
| `mean_between`    | groups of a mean reward in a range   | ROLL 2025         |
| `mixed`           | groups with unequal rewards          | DAPO 2025         |
| `ready`           | groups with a right and a wrong row  | FAR 2026          |
| `shortest`        | k shortest rows                      | GFPO 2025         |
| `std_above`       | groups of a reward std above a bound | ROLL 2025         |
| `stopped`         | rows that ended by themselves        | DAPO 2025         |
| `thin_flat`       | some rows of groups of equal rewards | AERO 2026         |
| `top_advantage`   | rows of the largest advantages       | DataFlex-RL 2026  |
"""

from jaxroll.keep import segments as segments
from jaxroll.keep._aero import aero
from jaxroll.keep._balanced import balanced
from jaxroll.keep._cbs import cbs
from jaxroll.keep._committed import committed
from jaxroll.keep._difficulty_band import difficulty_band
from jaxroll.keep._efficient import efficient
from jaxroll.keep._max_variance import max_variance
from jaxroll.keep._mean_between import mean_between
from jaxroll.keep._mixed import mixed
from jaxroll.keep._ready import ready
from jaxroll.keep._shortest import shortest
from jaxroll.keep._std_above import std_above
from jaxroll.keep._stopped import stopped
from jaxroll.keep._thin_flat import thin_flat
from jaxroll.keep._top_advantage import top_advantage

__all__ = [
  "aero",
  "balanced",
  "cbs",
  "committed",
  "difficulty_band",
  "efficient",
  "max_variance",
  "mean_between",
  "mixed",
  "ready",
  "shortest",
  "std_above",
  "stopped",
  "thin_flat",
  "top_advantage",
]
