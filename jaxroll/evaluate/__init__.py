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
| solve_rate_by_grade | P(a sample is right), by grade   |                  |

`held_out` makes the samples: k rows for each of some prompts of a task.
"""

from jaxroll.evaluate._avg_at_k import avg_at_k
from jaxroll.evaluate._estimate import Estimate
from jaxroll.evaluate._held_out import Samples, held_out
from jaxroll.evaluate._pass_at_k import pass_at_k
from jaxroll.evaluate._solve_rate_by_grade import solve_rate_by_grade

__all__ = [
  "Estimate",
  "Samples",
  "avg_at_k",
  "held_out",
  "pass_at_k",
  "solve_rate_by_grade",
]
