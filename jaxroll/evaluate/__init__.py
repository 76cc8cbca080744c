"""How good is the policy, and how sure are we?

Contract: functions of the scored samples of each prompt,

  (correct [N, n], ..., where [N, n] = None) -> Estimate,

N prompts with n samples each; `where` is False for a sample that was not
scored, so prompts may have different numbers of samples. Invariants: a sample
with `where` False is unread; permuting prompts or a prompt's samples changes
nothing; a prompt without enough scored samples is left out and counted in
`omitted`, never scored as wrong; standard errors are over prompts.

| function            | estimates                        | from             |
|---------------------|----------------------------------|------------------|
| avg_at_k            | mean score of a sample           | Miller 2024      |
| pass_at_k           | P(one of k samples is right)     | Chen et al. 2021 |
| maj_at_k            | P(the answer of most is right)   | Wang et al. 2022 |
| solve_rate_by_grade | P(a sample is right), by grade   |                  |

`held_out` makes the samples: k rows for each of some prompts of a task.
`bootstrap` gives an interval to any statistic of them, by prompts drawn anew.
`population` has prompts whose solve rates are known exactly, to measure what a
selector or an allocator makes of its rollouts.

Between methods, on the host, from a value or a curve of each seed:

| function           | answers                                | from           |
|--------------------|----------------------------------------|----------------|
| paired             | the mean difference, its interval      | Student 1908   |
| equivalence        | is it within a margin?                 | Schuirmann 1987|
| minimum_detectable | which difference would be found?       | Cohen 1988     |
| holm               | p-values, corrected for many methods   | Holm 1979      |
| at_cost, cost_to   | the value at a cost, the cost of one   |                |
"""

from jaxroll.evaluate import population as population
from jaxroll.evaluate._avg_at_k import avg_at_k
from jaxroll.evaluate._bootstrap import Interval, bootstrap
from jaxroll.evaluate._curves import at_cost, cost_to
from jaxroll.evaluate._estimate import Estimate
from jaxroll.evaluate._held_out import Samples, held_out
from jaxroll.evaluate._holm import holm
from jaxroll.evaluate._maj_at_k import maj_at_k
from jaxroll.evaluate._paired import (
  Paired,
  equivalence,
  minimum_detectable,
  paired,
)
from jaxroll.evaluate._pass_at_k import pass_at_k
from jaxroll.evaluate._solve_rate_by_grade import solve_rate_by_grade

__all__ = [
  "Estimate",
  "Interval",
  "Paired",
  "Samples",
  "at_cost",
  "avg_at_k",
  "bootstrap",
  "cost_to",
  "equivalence",
  "held_out",
  "holm",
  "maj_at_k",
  "minimum_detectable",
  "paired",
  "pass_at_k",
  "solve_rate_by_grade",
]
