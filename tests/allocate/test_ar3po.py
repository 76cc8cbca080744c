"""AR3PO: stages until the first success."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate
from jaxroll.allocate import _ar3po
from tests.allocate.stages import first_success, totals, wanted


def test_worked_values():
  # First success at draws 1, 6 and never; always right.
  table = [first_success(0), first_success(5), first_success(None), [1.0] * 16]
  counts = totals(allocate.ar3po(), 64, table)
  assert counts == [4, 8, 16, 4]
  assert sum(counts) == 32


def test_expected_cost():
  rate = jnp.array([0.0, 0.05, 0.25, 0.9], jnp.float32)
  np.testing.assert_allclose(
    _ar3po.expected_cost(rate, k=4, stages=4),
    [16, 12.073147, 5.792782, 4.000400],
    rtol=1e-6,
  )


def test_stages_end():
  wrong = [[0.0] * 12, [0.0] * 16, [0.0] * 8 + [1.0], [0.0] * 4]
  assert wanted(allocate.ar3po(), wrong, 16) == [4, 0, 0, 4]


def test_plan_is_cut_at_the_budget():
  assert allocate.ar3po().rounds(99, 4) == (16, 16, 16, 16)
  assert allocate.ar3po().rounds(24, 4) == (16, 8)
  with pytest.raises(ValueError, match="ar3po needs at least 17 .*budget=16"):
    allocate.ar3po().rounds(16, 4)


@pytest.mark.parametrize("hyper", [{"k": 0}, {"stages": 0}])
def test_refuses(hyper):
  with pytest.raises(ValueError, match="must be >= 1"):
    allocate.ar3po(**hyper)
