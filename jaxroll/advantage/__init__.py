"""How much better was a row than what its baseline expected?

An estimator turns the rewards of a step into one advantage a row:

  (reward f32[B], group i32[B], *, num_groups, valid bool[B]) -> adv f32[B]

Letters: B rows of the step, P = `num_groups` prompts, G scored rows of one
group. `group` says which prompt a row belongs to, `0 <= group < P`; groups of
different sizes are the normal case.

Invariants, tested for every function of `__all__`:

  - finite, also in their gradients; computed in float32;
  - a row that is not valid is never read and gets 0;
  - a group whose valid rewards are all equal, or that has one valid row, gets
    exactly 0 (not so for `reinforce`, whose baseline is the whole batch's);
  - no group depends on another one (not so for `reinforce`).

| function    | advantage                        | paper                     |
|-------------|----------------------------------|---------------------------|
| `dr_grpo`   | r - mean of the group            | Liu et al. 2025           |
| `grpo`      | (r - mean) / (std + eps)         | Shao et al. 2024          |
| `reinforce` | r - mean of the batch            | Williams 1992             |
| `rloo`      | r - mean of the group's others   | Ahmadian et al. 2024      |
"""

from jaxroll.advantage._dr_grpo import dr_grpo
from jaxroll.advantage._grpo import grpo
from jaxroll.advantage._reinforce import reinforce
from jaxroll.advantage._rloo import rloo

__all__ = ["dr_grpo", "grpo", "reinforce", "rloo"]
