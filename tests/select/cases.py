"""One row for each selection method: what the contract needs to know of it."""

from collections.abc import Callable
from typing import NamedTuple

from jaxroll import select


class Case(NamedTuple):
  """A selection method.

  Attributes:
    fn: what is tested.
    by_key: another key gives another choice.
  """

  fn: Callable
  by_key: bool


CASES = {
  "random": Case(select.random, True),
  "vade": Case(select.vade, True),
}
