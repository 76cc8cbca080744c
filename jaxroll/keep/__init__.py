"""Which rows are trained on, and which leave the step?

A keep function is a test of rows; a recipe holds a chain of them, joined by
`and`, and removes what is not kept from the baseline, the loss and the
denominators alike:

  (group i32[B], ... columns) -> bool[B], True = kept

Letters: B rows of the step, P prompts.

Invariants, tested for every function of `__all__`: a function that takes
`valid` keeps nothing that is not valid (the caller removes the rest), rewards
of rows that are not valid are never read, and no group depends on another.

| function    | keeps                                  | paper               |
|-------------|----------------------------------------|---------------------|
| `committed` | rows of groups that hold carried rows  | Pilot-Commit 2026   |
| `mixed`     | groups with unequal rewards            | DAPO: Yu et al. 2025|
| `stopped`   | rows that ended by themselves          | DAPO: Yu et al. 2025|
"""

from jaxroll.keep._committed import committed
from jaxroll.keep._mixed import mixed
from jaxroll.keep._stopped import stopped

__all__ = ["committed", "mixed", "stopped"]
