"""Every objective and every aggregation keeps the family's contract."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import objective
from tests import contracts
from tests.objective.cases import AGGREGATES, CASES


def _gradients(method):
  """batch -> gradients of sum(direction * loss), auxiliaries left out."""
  return contracts.gradients(
    method._replace(call=lambda batch: method.call(batch)[0])
  )


def check_form(method, batch):
  """loss f32[B, T] that is not all 0, and aux: a dict of f32[B, T]."""
  loss, aux = method.call(batch)
  for x in (loss, *aux.values()):
    assert x.dtype == jnp.float32 and x.shape == batch["mask"].shape
  assert jnp.any(loss != 0)


def check_on_policy_gradient(method, batch):
  """At logp == anchor: the gradient of -weight adv logp, for any bounds."""
  on_policy = {**batch, "logp": batch["anchor"]}
  expected = -batch["weight"] * batch["adv"][:, None]
  expected = jnp.where(batch["mask"], expected, 0.0)
  expected = expected * contracts.direction(0, batch["mask"].shape)
  gradients = _gradients(method)
  for spread in (0.0, 0.2, np.inf):
    one = jnp.ones_like(batch["low"])
    bounds = {"low": one * max(0.0, 1 - spread), "high": one * (1 + spread)}
    actual = gradients({**on_policy, **bounds})["logp"]
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


def check_masked_tokens_are_silent(method, batch):
  """Loss, aux and gradient are exactly 0 where masked, NaN or not."""
  dirty = {**batch, "logp": jnp.where(batch["mask"], batch["logp"], jnp.nan)}
  loss, aux = method.call(dirty)
  outside = ~np.asarray(batch["mask"])
  gradient = _gradients(method)(dirty)["logp"]
  for x in (loss, gradient, *aux.values()):
    np.testing.assert_array_equal(np.asarray(x)[outside], 0.0)
  assert np.any(np.asarray(gradient)[~outside] != 0)


def check_only_logp_has_a_gradient(method, batch):
  gradients = _gradients(method)(batch)
  assert np.any(np.asarray(gradients.pop("logp")) != 0)
  for column, gradient in gradients.items():
    np.testing.assert_array_equal(gradient, 0.0, err_msg=column)


def check_advantage_by_token(method, batch):
  """adv of shape [B] is adv of shape [B, T], the same for every token."""
  wide = jnp.broadcast_to(batch["adv"][:, None], batch["mask"].shape)
  contracts.close(method.call({**batch, "adv": wide}), method.call(batch))


CHECKS = (
  *contracts.CHECKS,
  check_form,
  check_on_policy_gradient,
  check_masked_tokens_are_silent,
  check_only_logp_has_a_gradient,
  check_advantage_by_token,
)


@pytest.mark.parametrize(
  "name, check", contracts.pairs(objective, CASES, CHECKS)
)
def test_contract(name, check):
  contracts.run(objective, name, check, CASES)


def test_no_case_without_a_method():
  assert set(CASES) == set(objective.__all__)
  assert set(AGGREGATES) == set(objective.aggregate.__all__)


# --- aggregations


def check_weights(method, batch):
  """f32[B, T] >= 0, 0 outside the mask, above 0 inside."""
  weights = method.call(batch)
  assert weights.dtype == jnp.float32
  assert weights.shape == batch["mask"].shape
  np.testing.assert_array_equal(np.asarray(weights) > 0, batch["mask"])


def check_nothing_trained(method, batch):
  nothing = {**batch, "mask": jnp.zeros_like(batch["mask"])}
  np.testing.assert_array_equal(method.call(nothing), 0.0)


def check_rows_without_tokens_do_not_count(method, batch):
  """Taking them away changes nothing for the others."""
  some = np.flatnonzero(np.asarray(batch["mask"]).any(axis=1))
  assert len(some) < contracts.ROWS
  contracts.close(
    method.call(contracts.take(batch, some)), method.call(batch)[some]
  )


def check_mean(method, batch):
  """The aggregate of a constant is the constant."""
  np.testing.assert_allclose(method.call(batch).sum(), 1.0, rtol=1e-6)


AGGREGATE_CHECKS = (
  *(c for c in contracts.CHECKS if c not in contracts.NEED_FLOATS),
  check_weights,
  check_nothing_trained,
  check_rows_without_tokens_do_not_count,
  check_mean,
)


@pytest.mark.parametrize(
  "name, check",
  contracts.pairs(objective.aggregate, AGGREGATES, AGGREGATE_CHECKS),
)
def test_aggregate_contract(name, check):
  contracts.run(objective.aggregate, name, check, AGGREGATES)
