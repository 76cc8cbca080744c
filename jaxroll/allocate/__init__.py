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
  aero          in chunks, on prompts without a success      arXiv:2602.14338
  ar3po         in stages, until the first success           arXiv:2509.25808
  balanced      in chunks, until a balanced group exists     arXiv:2605.15040
  coba          by a Beta-shaped value of the solve rate     arXiv:2602.03048
  dapo          on new groups where the group is flat        arXiv:2503.14476
  dars          twice, the second time on hard prompts       arXiv:2508.13755
  dart          less where a prompt is mostly solved         arXiv:2509.23866
  e3            by rank of past mean reward                  arXiv:2505.18573
  elimination   in rounds, until a prompt is done            arXiv:2510.04996
  far           in chunks, on groups that are all wrong      arXiv:2606.31504
  neyman        by the standard deviation of the reward      Neyman 1934
  pilot_commit  pilots for new, commits for waiting prompts  arXiv:2605.26606
  slot_elimination  at the slot, until a group is mixed      arXiv:2510.04996
  slot_mixed        at the slot, on the likeliest mixed group  (derived)
  slot_variance     at the slot, on the least certain mean   Neyman 1934
  thompson      greedily, at drawn solve rates               Thompson 1933
  trace         where a group most likely gets mixed         arXiv:2606.11119
  uniform       the same for each prompt                     (baseline)
  v05           where the prediction was wrong               arXiv:2603.10848
  vigor         in rounds, on the highest reward variance    arXiv:2607.22002
  xrpo          on the widest confidence intervals           arXiv:2510.06672

An allocator with a `gain` allocates at the slot, inside the decode loop: its
one round is `(most rows,)`, `counts` gives the opening rows, and

  gain(stats, tally, counts, ...) -> f32[P], the worth of one more row of each
    prompt, -inf for none; `counts` are rows begun, running ones included.
  decided(...) -> bool[P], prompts whose running rows are cancelled, or None.

The bias that such stops have, and what corrects it: `allocate.unbiased`.

`allocate.ties` holds the orders in which equal prompts are taken.
`allocate.until` says when a prompt is done, `allocate.lift` how far hard
prompts are lifted, `allocate.beliefs` what a step has shown so far.
"""

from jaxroll.allocate import beliefs as beliefs
from jaxroll.allocate import lift as lift
from jaxroll.allocate import ties as ties
from jaxroll.allocate import unbiased as unbiased
from jaxroll.allocate import until as until
from jaxroll.allocate._aero import aero
from jaxroll.allocate._ar3po import ar3po
from jaxroll.allocate._balanced import balanced
from jaxroll.allocate._coba import coba
from jaxroll.allocate._dapo import dapo
from jaxroll.allocate._dars import dars
from jaxroll.allocate._dart import dart
from jaxroll.allocate._e3 import e3
from jaxroll.allocate._elimination import elimination
from jaxroll.allocate._far import far
from jaxroll.allocate._neyman import neyman
from jaxroll.allocate._pilot_commit import pilot_commit
from jaxroll.allocate._slot_elimination import slot_elimination
from jaxroll.allocate._slot_mixed import slot_mixed
from jaxroll.allocate._slot_variance import slot_variance
from jaxroll.allocate._thompson import thompson
from jaxroll.allocate._trace import trace
from jaxroll.allocate._uniform import uniform
from jaxroll.allocate._v05 import v05
from jaxroll.allocate._vigor import vigor
from jaxroll.allocate._xrpo import xrpo

__all__ = [
  "aero",
  "ar3po",
  "balanced",
  "coba",
  "dapo",
  "dars",
  "dart",
  "e3",
  "elimination",
  "far",
  "neyman",
  "pilot_commit",
  "slot_elimination",
  "slot_mixed",
  "slot_variance",
  "thompson",
  "trace",
  "uniform",
  "v05",
  "vigor",
  "xrpo",
]
