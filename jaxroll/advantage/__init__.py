"""How much better was a row than what its baseline expected?

An estimator turns the rewards of a step into one advantage a row:

  (reward f32[B], group i32[B], *, num_groups, valid bool[B]) -> adv f32[B]

A transform stands after it, reads `adv` and gives another one of its shape;
where `adv` is 0 it stays 0:

  (adv f32[B] or f32[B, T], ..., *, valid bool[B]) -> adv

Letters: B rows of the step, P = `num_groups` prompts, G scored rows of one
group. `group` says which prompt a row belongs to, `0 <= group < P`; groups of
different sizes are the normal case.

Invariants, tested for every function of `__all__`:

  - finite, also in their gradients; computed in float32;
  - a row that is not valid is never read and gets 0;
  - a group whose valid rewards are all equal, or that has one valid row, gets
    exactly 0 (not so for `reinforce`, whose baseline is the whole batch's, and
    `posterior_baseline`, which is made for them);
  - no group depends on another one (not so for `reinforce`, nor for the
    weights of `bell_weight` and `softmax_weight`).

| function             | advantage                      | paper                |
|----------------------|--------------------------------|----------------------|
| `bell_weight`        | adv * bell about a pass rate   | DataFlex-RL 2026     |
| `dr_grpo`            | r - mean of the group          | Liu et al. 2025      |
| `grpo`               | (r - mean) / (std + eps)       | Shao et al. 2024     |
| `posterior_baseline` | GRPO; tied: r - posterior      | AERO 2026            |
| `reinforce`          | r - mean of the batch          | Williams 1992        |
| `rloo`               | r - mean of the group's others | Ahmadian et al. 2024 |
| `sharpen`            | adv, more for unlikely right   | XRPO 2025            |
| `shrinkage`          | r - mix of mean, prediction    | V0.5 2026            |
| `softmax_weight`     | adv * softmax of abs(adv)      | DataFlex-RL 2026     |
"""

from jaxroll.advantage._bell_weight import bell_weight
from jaxroll.advantage._dr_grpo import dr_grpo
from jaxroll.advantage._grpo import grpo
from jaxroll.advantage._posterior_baseline import posterior_baseline
from jaxroll.advantage._reinforce import reinforce
from jaxroll.advantage._rloo import rloo
from jaxroll.advantage._sharpen import sharpen
from jaxroll.advantage._shrinkage import shrinkage
from jaxroll.advantage._softmax_weight import softmax_weight

__all__ = [
  "bell_weight",
  "dr_grpo",
  "grpo",
  "posterior_baseline",
  "reinforce",
  "rloo",
  "sharpen",
  "shrinkage",
  "softmax_weight",
]
