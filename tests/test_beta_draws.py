"""beta_draws: the distribution, and what a draw depends on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from jaxroll import beta_draws

SHAPES = (
  (1.0, 1.0),  # the uniform prior
  (0.2, 0.3),  # decayed below a weak prior
  (0.05, 2.0),
  (1.0, 30.0),
  (4.0, 2.0),
  (0.5, 0.5),
  (1000.0, 3.0),
  (2e5, 1e5),
)
ROWS = 50_000
N = ROWS * len(SHAPES)
ALPHA, BETA = (jnp.tile(jnp.array(x), ROWS) for x in zip(*SHAPES))
draw = jax.jit(beta_draws.draw_logit)


@pytest.fixture(scope="module")
def ranks():
  """Each draw's cumulative probability, [ROWS, shapes]: uniform if exact."""
  logit = np.asarray(draw(ALPHA, BETA, jax.random.key(0)), np.float64)
  a, b = np.asarray(ALPHA, np.float64), np.asarray(BETA, np.float64)
  # Above one half the other tail has the digits.
  below = special.betainc(a, b, special.expit(np.minimum(logit, 0.0)))
  above = special.betainc(b, a, special.expit(-np.maximum(logit, 0.0)))
  return np.where(logit < 0, below, 1 - above).reshape(ROWS, -1)


def test_the_distribution_is_the_beta(ranks):
  for shapes, column in zip(SHAPES, ranks.T):
    p_value = stats.kstest(column, "uniform").pvalue
    assert p_value > 6e-7, shapes  # 5 sigma


def test_prompts_are_independent(ranks):
  # 1 / sqrt(ROWS) is the standard deviation of a correlation of nothing.
  normal = stats.norm.ppf(np.clip(ranks, 1e-9, 1 - 1e-9))
  correlation = np.corrcoef(normal, rowvar=False)
  off = correlation[~np.eye(len(SHAPES), dtype=bool)]
  assert np.abs(off).max() < 5 / np.sqrt(ROWS)
  for column in normal.T:
    lag = np.corrcoef(column[:-1], column[1:])[0, 1]
    assert abs(lag) < 5 / np.sqrt(ROWS)


def test_a_draw_is_the_sigmoid_of_its_logit():
  key = jax.random.key(2)
  out = beta_draws.draw(ALPHA[:40], BETA[:40], key)
  logit = beta_draws.draw_logit(ALPHA[:40], BETA[:40], key)
  np.testing.assert_allclose(
    out, special.expit(np.asarray(logit, np.float64)), rtol=1e-5
  )
  assert np.all((out >= 0) & (out <= 1)) and out.dtype == jnp.float32


def test_a_draw_depends_on_the_key_and_the_id_alone():
  key, part = jax.random.key(1), slice(3, None, 1000)
  whole = draw(ALPHA, BETA, key)
  ids = jnp.arange(N, dtype=jnp.int32)[part]
  # Gathered in another order.
  alone = draw(ALPHA[part][::-1], BETA[part][::-1], key, ids=ids[::-1])
  np.testing.assert_array_equal(alone[::-1], whole[part])
  changed = ALPHA.at[part].set(7.0)
  same = np.asarray(draw(changed, BETA, key) == whole)
  assert same[np.asarray(changed == ALPHA)].all()
  assert not same[part].any()
  other = draw(ALPHA, BETA, jax.random.key(2))
  assert np.mean(np.asarray(other == whole)) < 1e-3


def test_a_full_buffer_is_emptied_more_often(monkeypatch):
  alpha, beta = jnp.full(9000, 0.1), jnp.full(9000, 0.1)
  key = jax.random.key(3)
  whole = draw(alpha, beta, key)
  monkeypatch.setattr(beta_draws, "_GATHERED", 9000)
  # Some 700 of 9000 are rejected: 256 at a time.
  again = jax.jit(lambda *x: beta_draws.draw_logit(*x))
  in_parts = again(alpha, beta, key)
  np.testing.assert_array_equal(in_parts, whole)


def test_keys_of_any_kind_and_many_at_once():
  ones = jnp.ones(8)
  keys = jax.random.split(jax.random.key(4), 3)
  many = jax.vmap(lambda key: beta_draws.draw(ones, ones, key))(keys)
  each = [beta_draws.draw(ones, ones, key) for key in keys]
  np.testing.assert_allclose(many, np.stack(each), rtol=1e-6)
  rbg = beta_draws.draw(ones, ones, jax.random.key(4, impl="rbg"))
  raw = beta_draws.draw(ones, ones, jax.random.PRNGKey(4))
  assert np.all(np.isfinite(rbg)) and np.all(np.isfinite(raw))


@pytest.mark.parametrize("a, b", [(1e-20, 1e-20), (1e-6, 1e9), (1e20, 1e20)])
def test_extreme_shapes_are_finite(a, b):
  out = beta_draws.draw(jnp.full(64, a), jnp.full(64, b), jax.random.key(5))
  assert np.all((out >= 0) & (out <= 1))
  if a > 1:
    np.testing.assert_allclose(out, 0.5, rtol=1e-5)


def test_the_acceptance_keeps_its_digits():
  # h = x^2/2 + d - d v + d log v as it is published, in 80 bits.
  x = np.linspace(-5, 5, 41, dtype=np.float32)
  for shape in (0.01, 1.0, 30.0, 1e4):
    _, out = beta_draws._gamma(jnp.float32(shape), jnp.asarray(x))
    d = np.longdouble(np.float32(shape)) + np.longdouble(2) / 3
    t = np.longdouble(x) / (3 * np.sqrt(d))
    inside = t > -1
    v = np.where(inside, 1 + t, 1) ** 3
    expected = np.longdouble(x) ** 2 / 2 + d - d * v + d * np.log(v)
    expected = np.where(inside, expected, -np.inf).astype(np.float64)
    np.testing.assert_allclose(out, expected, rtol=2e-4, atol=2e-6)
