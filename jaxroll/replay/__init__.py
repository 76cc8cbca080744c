"""Which rows are kept for a later step, and when do they come back?

A method is a factory of a `Replay` over a state of static shape:

  init(sizes, *, key) -> state
  waiting(sizes) -> (W, Q), most groups and rows that come back in a step
  blocked(state) -> bool[N], ids that must not be selected afresh
  resume(state, *, step) -> ids i32[W], Rollouts[Q], Outcome[Q], state
  add(state, prompts, rollouts, outcome, waiting, *, step) -> state

A step calls `resume` first, then `blocked` for its selection, and `add` last,
all with the same `step`. Invariants: what `resume` returns leaves the buffer;
its rows have `round` -1, keep their index, and are invalid where ids is -1;
resumed rows are no evidence for the prompt statistics; rows that are invalid
change nothing.

  method  keeps                                         paper
  pilots  groups of pilots whose solve rate is useful   arXiv:2605.26606
"""

from jaxroll.replay._pilots import pilots

__all__ = ["pilots"]
