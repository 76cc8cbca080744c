"""What every mixture promises."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import mixture, recipe
from jaxroll.types import COLUMNS, SCORED, Sizes
from tests.mixture import rows
from tests.mixture.cases import CASES

NAMES = sorted(mixture.__all__)
K = 3
SIZES = Sizes(12, 6, 24, 5, 6, num_sources=K)


def _init(name):
  return CASES[name].method.init(SIZES, key=jax.random.key(0))


def _step(name):
  """(state, columns, step, key) -> weights, state after one step."""
  method = CASES[name].method

  def step(state, columns, number, key):
    weights, state = recipe.call(
      method.apply, {"state": state}, step=number, key=key
    )
    columns = columns | {"state": state}
    return weights, recipe.call(
      method.update, columns, step=number, num_groups=6, key=key
    )

  return step


def _run(step, state, columns):
  """Weights of each step."""
  weights = []
  for number, seen in enumerate(columns):
    key = jax.random.key(number)
    new, state = step(state, seen, jnp.int32(number), key)
    weights.append(new)
  return np.stack(weights), state


def _types(tree):
  return jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), tree)


def test_every_method_has_a_case():
  assert sorted(CASES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_arguments(name):
  method = CASES[name].method
  apply = inspect.signature(method.apply).parameters.values()
  assert [p.name for p in apply] == ["state", "step", "key"]
  first, *rest = inspect.signature(method.update).parameters.values()
  assert first.name == "state"
  named = {p.name for p in rest if p.default is p.empty}
  assert named <= set(recipe.AVAILABLE["update"])
  assert named & set(COLUMNS) or not CASES[name].learns


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_shares_and_jit_changes_nothing(name):
  columns = [rows.sample(seed, K) for seed in range(10)]
  jitted = jax.jit(_step(name))
  weights, state = _run(jitted, _init(name), columns)
  assert weights.dtype == np.float32 and weights.shape == (10, K)
  assert (weights >= 0).all()
  np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-5)
  # Ten steps of other values, a state that was handed back: one compilation.
  assert jitted._cache_size() == 1
  assert _types(state) == _types(_init(name))
  eager, _ = _run(_step(name), _init(name), columns[:6])
  np.testing.assert_allclose(weights[:6], eager, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_scored_or_not_kept_is_unread(name):
  clean, dirty = [], []
  for seed in range(6):
    columns = rows.sample(seed, K)
    out = columns["status"] != SCORED
    clean.append(columns)
    dirty.append(
      columns
      | {
        "reward": jnp.where(out, jnp.nan, columns["reward"]),
        "adv": jnp.where(columns["valid"], columns["adv"], jnp.inf),
      }
    )
  step = jax.jit(_step(name))
  for a, b in zip(
    jax.tree.leaves(_run(step, _init(name), dirty)),
    jax.tree.leaves(_run(step, _init(name), clean)),
  ):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_seen_moves_the_weights(name):
  # Source 0 is learned, the next ones are not.
  columns = [
    rows.step([[0.1 * n] * 8, [0.1] * 4, [0.0] * 2]) for n in range(12)
  ]
  weights, _ = _run(jax.jit(_step(name)), _init(name), columns)
  assert np.any(weights[-1] != weights[0]) == CASES[name].learns


@pytest.mark.parametrize("name", NAMES)
def test_key(name):
  apply = CASES[name].method.apply
  weights = [
    apply(_init(name), step=jnp.int32(0), key=jax.random.key(seed))[0].tolist()
    for seed in range(2)
  ]
  assert (weights[0] != weights[1]) == CASES[name].by_key


@pytest.mark.parametrize("name", NAMES)
def test_a_step_without_rows_is_no_news(name):
  columns = rows.sample(0, K)
  empty = columns | {
    "status": jnp.ones_like(columns["status"]),
    "valid": jnp.zeros_like(columns["valid"]),
  }
  weights, state = _run(jax.jit(_step(name)), _init(name), [empty] * 4)
  assert np.isfinite(weights).all()
  assert all(jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(state))
