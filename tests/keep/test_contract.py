"""Every keep function keeps the family's contract."""

import jax.numpy as jnp
import pytest

from jaxroll import keep
from tests import contracts
from tests.keep.cases import CASES

# Factories of a Method: a test of their own runs their `apply`.
METHODS = ("cbs",)


def check_is_a_test_of_rows(method, batch):
  """bool[B], and on this batch neither everything nor nothing."""
  kept = method.call(batch)
  assert kept.shape == (contracts.ROWS,) and kept.dtype == jnp.bool_
  assert jnp.any(kept) and not jnp.all(kept)


CHECKS = (
  *contracts.CHECKS,
  check_is_a_test_of_rows,
)


def pairs():
  made = (contracts.check_wiring, contracts.check_documentation)
  return [
    pair
    for pair in contracts.pairs(keep, CASES, CHECKS)
    if pair.values[0] not in METHODS or pair.values[1] in made
  ]


@pytest.mark.parametrize("name, check", pairs())
def test_contract(name, check):
  contracts.run(keep, name, check, CASES)


@pytest.mark.parametrize(
  "name", sorted(set(keep.__all__) - {"cbs", "committed", "stopped"})
)
def test_what_takes_valid_never_keeps_an_invalid_row(name):
  batch = contracts.sample()
  method = contracts.bind(getattr(keep, name), CASES[name])
  assert "valid" in method.names
  assert not jnp.any(method.call(batch) & ~batch["valid"])


def test_no_case_without_a_method():
  assert set(CASES) == set(keep.__all__)
