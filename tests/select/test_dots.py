"""DOTS: predicted solve rates, and how they are learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import posterior, recipe, select
from jaxroll.select import _dots
from jaxroll.types import Sizes
from tests.select import rows

N, D = 64, 4
SIZES = Sizes(N, 16, 64, 5, 6, num_features=D)
ANGLE = np.linspace(0.0, np.pi, N)
# Rates fall smoothly along an arc of features.
RATE = 1 / (1 + np.exp(4 * (ANGLE - 1.2)))
FEATURE = np.stack(
  [np.cos(ANGLE), np.sin(ANGLE), 0 * ANGLE, 0 * ANGLE], axis=1
).astype(np.float32)


def _stats(references):
  """Beliefs in which only some prompts were rolled out."""
  seen = np.full(N, -1)
  seen[references] = np.arange(len(references))
  return posterior.init(N).replace(
    mean=jnp.asarray(RATE, jnp.float32), seen=jnp.asarray(seen, jnp.int32)
  )


def _apply(method, state, stats, num=8, seed=0):
  return method.apply(
    state,
    stats,
    jnp.arange(N),
    jnp.asarray(FEATURE),
    num=num,
    key=jax.random.key(seed),
  )


def test_attention_of_the_source():
  # Scores 2 / sqrt 2 and 0: weights .804430 and .195570.
  p = _dots.attend(
    jnp.array([[1.0, 0.0]]),
    jnp.array([[2.0, 0.0], [0.0, 2.0]]),
    jnp.array([0.25, 0.75]),
    jnp.array([[True, True]]),
    1.0,
  )
  np.testing.assert_allclose(p, [0.347785], rtol=1e-5)
  p = _dots.attend(
    jnp.ones((1, 2)), jnp.eye(2), jnp.ones(2), jnp.zeros((1, 2), bool), 1.0
  )
  assert p.tolist() == [0.5]


def test_rates_are_predicted_from_the_prompts_rolled_out_last():
  method = select.dots(references=12, tau=0.01, fresh=0.0)
  stats = _stats(np.arange(0, N, 4))  # 16 prompts, of which 12 are read
  state = method.init(SIZES, key=jax.random.key(0))
  ids, state = _apply(method, state, stats)
  assert sorted(state.ids.tolist()) == list(range(16, N, 4))
  rate = _dots.predict(state, jnp.asarray(FEATURE), jnp.arange(N))
  inside = slice(16, N)
  assert np.corrcoef(rate[inside], RATE[inside])[0, 1] > 0.95
  # Nearest to one half are those around the 24th: 1.2 / pi * 63.
  assert np.abs(np.asarray(ids) - 24).max() <= 8


def test_a_share_of_the_places_is_random():
  method = select.dots(references=12, tau=0.01, fresh=0.5)
  state = method.init(SIZES, key=jax.random.key(0))
  far = set()
  for seed in range(8):
    ids, _ = _apply(method, state, _stats(np.arange(0, N, 4)), seed=seed)
    # Half of 8 first, by chance; the others near one half.
    far |= set(ids[:4].tolist())
    assert np.abs(np.asarray(ids[4:]) - 24).max() <= 12
  assert len(far) > 20


def test_without_references_all_are_alike():
  method = select.dots()
  state = method.init(SIZES, key=jax.random.key(0))
  choices = [
    set(_apply(method, state, _stats([]), seed=seed)[0].tolist())
    for seed in range(4)
  ]
  assert len(set.union(*choices)) > 16


@pytest.mark.parametrize("projected", [False, True])
def test_the_predictor_learns_from_the_groups(projected):
  method = select.dots(
    references=16, tau=1.0, learning_rate=0.5, projected=projected, fresh=0.0
  )
  state = method.init(SIZES, key=jax.random.key(0))
  _, state = _apply(method, state, _stats(np.arange(0, N, 4)))
  ids = np.arange(1, N, 4)
  columns = rows.step(ids, [[x, x] for x in RATE[ids]])
  columns["feature"] = jnp.asarray(FEATURE)

  def error(state):
    p = np.asarray(_dots.predict(state, columns["feature"], jnp.asarray(ids)))
    right = RATE[ids]
    return -np.mean(right * np.log(p) + (1 - right) * np.log(1 - p))

  before = error(state)
  update = jax.jit(lambda s, c: recipe.call(method.update, c | {"state": s}))
  for _ in range(50):
    state = update(state, columns)
  # Attention begins almost flat, at the mean rate, and sharpens.
  assert error(state) < before - 0.02
  assert float(state.weights.log_tau) < 0.0


def test_numbers_out_of_range_are_refused():
  with pytest.raises(ValueError, match="references=0"):
    select.dots(references=0)
  with pytest.raises(ValueError, match="fresh=2.0 must lie in"):
    select.dots(fresh=2.0)
  with pytest.raises(ValueError, match="temperature=0.0"):
    select.dots(temperature=0.0)
