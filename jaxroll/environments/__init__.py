"""Tasks: prompts, and a verifier that says what a row is worth.

A task is a `types.Task`: a bundle of arrays and pure functions.

  prompts    (data, ids i32[P]) -> types.Prompts, types.Contexts
  verify     (prompts, rollouts) -> types.Outcome
  solutions  (data, ids, key) -> tokens i32[P, T], length i32[P], or None

Invariants, which one test holds every task to:

  * Shapes are static, tokens are i32 and right-padded with 0; a context
    starts with the start token and is never cut.
  * An id of -1 is an empty slot: it keeps that id, its rows are not valid.
  * `train_pool` and `eval_pool` are disjoint and together all N prompts, and
    no two prompts are equal.
  * `verify` reads `tokens` up to `length` and nothing after it. Pad is a
    token like any other: one inside a row does not end it.
  * A valid row is scored, however short or wrong; a row that does not exist
    is aborted; one whose verifier failed is unscorable. The reward of a row
    that is not scored is 0.
  * In the graph only a row that `stopped` on the stop token can be right: one
    that was cut off earns 0. A host scorer judges whatever text there is.
  * Solutions verify to reward 1.
  * If `jittable`, jitted functions equal eager ones, and `verify` may stand
    inside the training step; otherwise it takes and gives numpy arrays.

  task           right answers  verifier         reference
  arithmetic     one            in the graph     Lee et al. 2023, 2307.03381
  countdown      many           in the graph     Gandhi et al. 2024, 2404.03683
  host_task      the user's     Python, per row  none
  questions      a file's       `answers`        Cobbe et al. 2021, 2110.14168
  reasoning_gym  the package's  the package's    Stojanovski 2025, 2505.24760

To add a task, write a function that returns a `types.Task` in one file
`_name.py` (`_table.py` has what most need: padding, pools, gathering), import
it below, and add its row to the cases of the protocol test. A verifier that
is a few integer operations a token belongs in the graph; one that needs text
is one call of `host_task`. A task of text takes a pretrained model's tokenizer:
`questions` reads a file, `reasoning_gym` generates, and both render the
model's own chat turn (`_text.py`). What a scorer may be made of:

  answers    numeric, exact and symbolic (math-verify) checks of an answer
  sandbox    Python programs against asserts or inputs and outputs
  sql        SQLite queries against a reference
  workers    the processes that run scorers, with time and memory limits
"""

from jaxroll.environments._arithmetic import arithmetic
from jaxroll.environments._countdown import countdown
from jaxroll.environments._host import host_task
from jaxroll.environments._questions import questions
from jaxroll.environments._reasoning_gym import reasoning_gym

__all__ = [
  "arithmetic",
  "countdown",
  "host_task",
  "questions",
  "reasoning_gym",
]
