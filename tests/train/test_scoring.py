"""Log-probs of rows that are there: layout, chunks, garbage, temperature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import rollout, train
from jaxroll.train import scoring
from tests.train import rows as rows_lib
from tests.train import tiny

ROWS, CONTEXTS, PARAMS = rows_lib.columns(), rows_lib.contexts(), tiny.params()


@pytest.fixture(scope="module")
def score():
  """(params, tokens, temperature) -> logp, entropy."""

  def run(params, tokens, temperature):
    context = ROWS["context"]
    return train.token_logps(
      tiny.POLICY,
      params,
      CONTEXTS.tokens[context],
      CONTEXTS.length[context],
      tokens,
      ROWS["length"],
      temperature,
    )

  return jax.jit(run)


def inside():
  return np.arange(rows_lib.T)[None, :] < np.asarray(ROWS["length"])[:, None]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_equals_a_plain_forward_pass(score, temperature):
  logp, entropy = score(PARAMS, ROWS["tokens"], jnp.float32(temperature))
  expected, logits = rows_lib.logps(
    tiny.POLICY, PARAMS, ROWS, CONTEXTS, temperature
  )
  atol = 4e-6 * float(jnp.abs(logits).max())
  np.testing.assert_allclose(logp, np.where(inside(), expected, 0), atol=atol)
  p = np.asarray(jax.nn.softmax(logits), np.float64)
  plain = -np.sum(p * np.log(p), axis=-1)
  np.testing.assert_allclose(entropy, np.where(inside(), plain, 0), atol=atol)


def test_greedy_rows_are_scored_by_the_policy_itself(score):
  cold = score(PARAMS, ROWS["tokens"], jnp.float32(0))
  assert tiny.same(cold, score(PARAMS, ROWS["tokens"], jnp.float32(1)))


def test_what_follows_a_row_is_not_read(score):
  garbage = jnp.where(inside(), ROWS["tokens"], 17)
  one = jnp.float32(1)
  clean = score(PARAMS, ROWS["tokens"], one)
  assert tiny.same(clean, score(PARAMS, garbage, one))


@pytest.mark.parametrize("chunk", [1, 2 * rows_lib.B * rows_lib.V])
def test_chunks_change_nothing(score, monkeypatch, chunk):
  """Values and gradients, with one and with two tokens at a time."""

  def total(params):
    context = ROWS["context"]
    logp, entropy = train.token_logps(
      tiny.POLICY,
      params,
      CONTEXTS.tokens[context],
      CONTEXTS.length[context],
      ROWS["tokens"],
      ROWS["length"],
      jnp.float32(1),
    )
    return jnp.mean(jnp.square(logp)) + jnp.sum(entropy), (logp, entropy)

  whole, gradient = jax.grad(total, has_aux=True), {}
  gradient[0], values = jax.jit(whole)(PARAMS)
  monkeypatch.setattr(scoring, "_CHUNK", chunk)
  gradient[1], chunked = jax.jit(lambda params: whole(params))(PARAMS)
  tiny.close(values, chunked)
  tiny.close(gradient[0], gradient[1], atol=1e-5)
  assert scoring._chunks(rows_lib.B * rows_lib.V, rows_lib.T) in (3, 6)


def test_columns_of_several_parameters():
  """A batch that the passes do not divide; each set under its name."""
  other = tiny.params(seed=1)
  whole = rollout.empty(rows_lib.B, rows_lib.T).replace(
    context=ROWS["context"], tokens=ROWS["tokens"], length=ROWS["length"]
  )
  out = jax.jit(
    lambda a, b: scoring.columns(
      tiny.POLICY,
      {"old_logp": a, "ref_logp": b},
      whole,
      CONTEXTS,
      jnp.float32(1),
      micro_rows=12,
    )
  )(PARAMS, other)
  assert set(out) == {"old_logp", "ref_logp"}
  for name, params in (("old_logp", PARAMS), ("ref_logp", other)):
    expected, _ = rows_lib.logps(tiny.POLICY, params, ROWS, CONTEXTS)
    np.testing.assert_allclose(
      out[name], np.where(inside(), expected, 0), atol=5e-5
    )
