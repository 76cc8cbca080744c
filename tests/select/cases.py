"""One row for each selection method: what the contract needs to know of it."""

from collections.abc import Callable
from typing import NamedTuple

from jaxroll import select
from jaxroll.types import Method


class Case(NamedTuple):
  """A selection method.

  Attributes:
    fn: what is tested, a factory's with its defaults or numbers that fit the
      contract's sizes.
    by_key: another key gives another choice.
  """

  fn: Callable | Method
  by_key: bool


CASES = {
  "dots": Case(select.dots(references=8, temperature=0.1), True),
  "epsilon_greedy": Case(select.epsilon_greedy(), True),
  "greso": Case(select.greso(), True),
  "hive_check": Case(select.hive_check, False),
  "hive_prior": Case(select.hive_prior(), True),
  "moderate": Case(select.moderate, True),
  "random": Case(select.random, True),
  "stratified": Case(select.stratified, True),
  "thompson": Case(select.thompson(), True),
  "ucb": Case(select.ucb(), True),
  "vade": Case(select.vade, True),
}
