"""Every trust function keeps the family's contract."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import trust, types
from tests import contracts
from tests.trust.cases import CASES


def check_fields(method, batch):
  """Trust of f32[B, T], low <= 1 <= high, anchored at the old policy."""
  out = method.call(batch)
  assert isinstance(out, types.Trust)
  for x in out:
    assert x.dtype == jnp.float32 and x.shape == batch["mask"].shape
  assert jnp.all((out.low <= 1) & (out.high >= 1) & (out.low >= 0))
  expected = np.where(batch["mask"], batch["old_logp"], 0.0)
  np.testing.assert_array_equal(out.anchor, expected)


def check_weight_is_one(method, batch):
  """Exactly 1 outside the mask, and where sampler and trainer agree."""
  weight = np.asarray(method.call(batch).weight)
  np.testing.assert_array_equal(weight[~batch["mask"]], 1.0)
  agree = {**batch, "behaviour_logp": batch["old_logp"]}
  np.testing.assert_array_equal(method.call(agree).weight, 1.0)


def check_no_gradient(method, batch):
  for column, gradient in contracts.gradients(method)(batch).items():
    np.testing.assert_array_equal(gradient, 0.0, err_msg=column)


CHECKS = (
  *contracts.CHECKS,
  check_fields,
  check_weight_is_one,
  check_no_gradient,
)


@pytest.mark.parametrize("name, check", contracts.pairs(trust, CASES, CHECKS))
def test_contract(name, check):
  contracts.run(trust, name, check, CASES)


def test_no_case_without_a_method():
  assert set(CASES) == set(trust.__all__)


def test_merge_keeps_every_invariant():
  batch = contracts.sample()
  method = [contracts.bind(getattr(trust, n), CASES[n]) for n in trust.__all__]
  chain = [m.call(batch) for m in method]
  merged = jax.jit(trust.merge)(chain)
  np.testing.assert_array_equal(merged.anchor, chain[0].anchor)
  np.testing.assert_allclose(merged.low, 0.8, rtol=1e-6)
  np.testing.assert_allclose(merged.high, 1.2, rtol=1e-6)
  weights = np.stack([t.weight for t in chain])
  np.testing.assert_allclose(merged.weight, weights.prod(0), rtol=1e-6)
  assert len(np.unique(weights)) > 2
