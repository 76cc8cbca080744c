"""How many rollouts does each prompt of a step get?

A method is a factory of an `Allocator`:

  rounds(budget, P) -> static rows of each round, sum <= budget; ValueError
    where the budget is infeasible.
  counts(stats, ..., *, round, rows, key) -> i32[P], the new rows of each
    prompt in round `round`, sum <= rows. `rows` is that round's entry of
    `rounds`; both may be traced.

`stats`, `tally` and `counts` (rows given to each prompt so far in the step)
have one entry a prompt of the step and are asked for by name. Only counts
depend on data, never a shape: whatever is allocated, nothing recompiles.
Invariants: 0 <= counts, sum(counts) <= rows, and counts depend on a prompt's
place only where two prompts tie. An empty prompt's rows are dropped by the
caller.

  method        spends a budget                              paper
  pilot_commit  pilots for new, commits for waiting prompts  arXiv:2605.26606
  uniform       the same for each prompt                     (baseline)
  vigor         in rounds, on the highest reward variance    arXiv:2607.22002

`allocate.ties` holds the orders in which equal prompts are taken.
"""

from jaxroll.allocate import ties as ties
from jaxroll.allocate._pilot_commit import pilot_commit
from jaxroll.allocate._uniform import uniform
from jaxroll.allocate._vigor import vigor

__all__ = ["pilot_commit", "uniform", "vigor"]
