"""Every keep function keeps the family's contract."""

import jax.numpy as jnp
import pytest

from jaxroll import keep
from tests import contracts
from tests.keep.cases import CASES


def check_is_a_test_of_rows(method, batch):
  """bool[B], and on this batch neither everything nor nothing."""
  kept = method.call(batch)
  assert kept.shape == (contracts.ROWS,) and kept.dtype == jnp.bool_
  assert jnp.any(kept) and not jnp.all(kept)


CHECKS = (
  *contracts.CHECKS,
  check_is_a_test_of_rows,
)


@pytest.mark.parametrize("name, check", contracts.pairs(keep, CASES, CHECKS))
def test_contract(name, check):
  contracts.run(keep, name, check, CASES)


@pytest.mark.parametrize("name", ["mixed"])
def test_what_takes_valid_never_keeps_an_invalid_row(name):
  batch = contracts.sample()
  method = contracts.bind(getattr(keep, name), CASES[name])
  assert "valid" in method.names
  assert not jnp.any(method.call(batch) & ~batch["valid"])


def test_no_case_without_a_method():
  assert set(CASES) == set(keep.__all__)
