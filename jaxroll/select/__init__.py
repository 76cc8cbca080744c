"""Which prompts does a step roll out?

A method is a function

  (stats PromptStats[N], pool i32[M], *, num, blocked=None, key) -> i32[num]

that gives ids out of `pool`, without duplicates and without those that
`blocked` bool[N] marks; where fewer than `num` may be selected, the rest is
-1. `pool` holds distinct ids; `num` is static and at most M. The order of
the pool matters only where two scores tie.

  method  selects                                              paper
  random  uniformly                                            (baseline)
  vade    by p (1 - p)^2 of Thompson-drawn solve rates         arXiv:2511.18902
"""

from jaxroll.select._random import random
from jaxroll.select._vade import vade

__all__ = ["random", "vade"]
