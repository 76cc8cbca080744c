"""Which prompts does a step roll out?

A method is a function

  (stats PromptStats[N], pool i32[M], *, num, blocked=None, quota=None, key)
    -> i32[num]

that gives ids out of `pool`, without duplicates and without those that
`blocked` bool[N] marks; where fewer than `num` may be selected, the rest is
-1. `pool` holds distinct ids and -1 for empty entries; `num` is static and at
most M. With a `quota`, exactly `quota.count[k]` ids are of source k where that
many may be selected; what a source lacks goes to the others. The order of the
pool matters only where two scores tie.

A method with a memory is a factory of `types.Method`, whose `apply` takes the
state first and returns it last, and whose `update` learns from the step's
rows: from all that were scored, those that a keep function removed included.
`feature` f32[N, D] and `prompt_entropy` f32[M] are further columns.

  method          selects                                      paper
  dots            near 1/2 by predicted rates (Method)         arXiv:2506.05316
  epsilon_greedy  the most paying, at times any (Method)       arXiv:2503.22595
  greso           what passes a filter by past ties (Method)   arXiv:2506.02177
  hive_check      by the policy's entropy over the prompt      arXiv:2603.25184
  hive_prior      candidates by reward history (Method)        arXiv:2603.25184
  moderate        near 1/2 by posterior mean                   arXiv:2506.05316
  random          uniformly                                    (baseline)
  stratified      fixed shares of hard, medium, easy           arXiv:2512.20312
  thompson        by drawn pay (Method)                        arXiv:1707.09727
  ucb             by the upper bound of the pay (Method)       arXiv:2503.22595
  vade            by p (1 - p)^2 of drawn solve rates          arXiv:2511.18902
"""

from jaxroll.select._dots import dots
from jaxroll.select._epsilon_greedy import epsilon_greedy
from jaxroll.select._greso import greso
from jaxroll.select._hive_check import hive_check
from jaxroll.select._hive_prior import hive_prior
from jaxroll.select._moderate import moderate
from jaxroll.select._random import random
from jaxroll.select._stratified import stratified
from jaxroll.select._thompson import thompson
from jaxroll.select._ucb import ucb
from jaxroll.select._vade import vade

__all__ = [
  "dots",
  "epsilon_greedy",
  "greso",
  "hive_check",
  "hive_prior",
  "moderate",
  "random",
  "stratified",
  "thompson",
  "ucb",
  "vade",
]
