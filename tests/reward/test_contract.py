"""Every reward function keeps the family's contract."""

import jax.numpy as jnp
import pytest

from jaxroll import reward
from tests import contracts
from tests.reward.cases import CASES


def check_is_a_reward(method, batch):
  """f32[B], and on this batch not the reward that came in."""
  out = method.call(batch)
  assert out.shape == (contracts.ROWS,) and out.dtype == jnp.float32
  assert jnp.any(out != batch["reward"])


def check_shift(method, batch):
  """A constant added to the reward is added to the result."""
  shifted = {**batch, "reward": batch["reward"] + 0.5}
  contracts.close(method.call(shifted), method.call(batch) + 0.5, atol=1e-5)


CHECKS = (*contracts.CHECKS, check_is_a_reward, check_shift)


@pytest.mark.parametrize("name, check", contracts.pairs(reward, CASES, CHECKS))
def test_contract(name, check):
  contracts.run(reward, name, check, CASES)


def test_no_case_without_a_method():
  assert set(CASES) == set(reward.__all__)
