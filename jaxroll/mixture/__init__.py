"""Which sources do a step's prompts come from?

A method gives the weights of a step's K sources,

  (*, step, key, ...) -> weights f32[K], >= 0, sum 1

or is a `types.Method` that learns them:

  init(sizes, *, key) -> state
  apply(state, *, step, key) -> weights f32[K], state
  update(state, ... columns, *, step) -> state, once a step has ended

`update` sees `source` i32[P] of the step's prompts and columns of its rows
(`group`, `status`, `reward`, `adv`, `valid`); what a row that was not scored
holds is unread. The step makes whole prompts of the weights by largest
remainder, and `select` keeps that quota where a source has prompts enough.
Sources are a task's, by default its difficulty grades.

  method      gives more to                                   paper
  apriel      sources behind their target of completed ones   arXiv:2604.02007
  d3_mopd     sources far from done that still improve        arXiv:2608.24987
  fixed       fixed shares, equal by default                  arXiv:2601.02439
  lineage     the open one of a ladder, until it is passed    arXiv:2609.04128
  reward_gap  sources of low mean reward                      arXiv:2609.06107
  tscl        sources whose mean reward moves                 arXiv:1707.00183
  ucb         sources with large advantages or few rollouts   arXiv:2609.06107
"""

from jaxroll.mixture._apriel import apriel
from jaxroll.mixture._d3_mopd import d3_mopd
from jaxroll.mixture._fixed import fixed
from jaxroll.mixture._lineage import lineage
from jaxroll.mixture._reward_gap import reward_gap
from jaxroll.mixture._tscl import tscl
from jaxroll.mixture._ucb import ucb

__all__ = [
  "apriel",
  "d3_mopd",
  "fixed",
  "lineage",
  "reward_gap",
  "tscl",
  "ucb",
]
