"""One row for each mixture: what the contract runs."""

from typing import NamedTuple

from jaxroll import mixture
from jaxroll.types import Method


class Case(NamedTuple):
  """A mixture.

  Attributes:
    method: with numbers so small that few steps move it.
    learns: its weights depend on what was seen.
    by_key: another key gives other weights.
  """

  method: Method
  learns: bool = True
  by_key: bool = False


CASES = {
  "apriel": Case(mixture.apriel(warmup=4)),
  "d3_mopd": Case(mixture.d3_mopd(every=1, window=2, pairs=2), by_key=True),
  "fixed": Case(mixture.fixed(), learns=False),
  "lineage": Case(mixture.lineage(passes=1)),
  "reward_gap": Case(mixture.reward_gap(window=4, every=1, warmup=0)),
  "tscl": Case(mixture.tscl(window=4, every=1, warmup=0)),
  "ucb": Case(mixture.ucb(window=4, every=1, warmup=0)),
}
