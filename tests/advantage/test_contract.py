"""Every advantage estimator keeps the family's contract."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import advantage
from tests import contracts
from tests.advantage.cases import CASES


def check_no_signal(method, batch):
  """Tied groups and groups of one get exactly 0."""
  adv = method.call(batch)
  silent = np.isin(np.asarray(batch["group"]), (1, 2, 3))
  np.testing.assert_array_equal(np.asarray(adv)[silent], 0.0)
  assert np.all(np.asarray(adv)[~silent & np.asarray(batch["valid"])] != 0.0)


def check_invalid_rows_get_zero(method, batch):
  adv = method.call(batch)
  np.testing.assert_array_equal(np.asarray(adv)[~batch["valid"]], 0.0)
  assert jnp.any(adv != 0.0)


def check_shift(method, batch):
  """A constant added to all rewards changes no advantage."""
  shifted = {**batch, "reward": batch["reward"] + 0.5}
  contracts.close(method.call(shifted), method.call(batch), atol=1e-5)


CHECKS = (
  *contracts.CHECKS,
  check_no_signal,
  check_invalid_rows_get_zero,
  check_shift,
)


@pytest.mark.parametrize(
  "name, check", contracts.pairs(advantage, CASES, CHECKS)
)
def test_contract(name, check):
  contracts.run(advantage, name, check, CASES)


def test_no_case_without_a_method():
  assert set(CASES) == set(advantage.__all__)
