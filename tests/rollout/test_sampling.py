"""Does the sampler draw from the distribution that it says?"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import rollout
from jaxroll.rollout import sampling

LOGITS = jnp.array(
  [[1.0, 3.0, -2.0, 2.0, 0.5], [0.0, -1.0, 4.0, 4.5, 4.25]], jnp.float32
)


def probabilities(settings, logits=LOGITS):
  """What `measure` says of every token: f64[R, V], and the entropy."""
  shaped = sampling.shape_logits(logits, settings)
  vocab = logits.shape[-1]
  columns = [
    sampling.measure(shaped, jnp.full(len(logits), v, jnp.int32))
    for v in range(vocab)
  ]
  logp = np.stack([np.float64(c[0]) for c in columns], axis=1)
  return np.exp(logp), np.float64(columns[0][1])


def softmax(logits):
  weight = np.exp(np.float64(logits) - np.max(logits, axis=-1, keepdims=True))
  return weight / weight.sum(axis=-1, keepdims=True)


def on_support(kept, temperature=1.0):
  """Probabilities renormalised on the kept tokens."""
  weight = softmax(np.float64(LOGITS) / temperature) * np.array(kept)
  return weight / weight.sum(axis=-1, keepdims=True)


def check(settings, kept, temperature=1.0):
  actual, entropy = probabilities(settings)
  expected = on_support(kept, temperature)
  np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=0)
  plogp = np.where(expected > 0, expected * np.log(expected + 1e-300), 0.0)
  np.testing.assert_allclose(entropy, -plogp.sum(axis=1), rtol=2e-6, atol=1e-6)


ALL = [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1]]


def test_temperature():
  check(rollout.sampler(1.0), ALL)
  check(rollout.sampler(0.5), ALL, temperature=0.5)


@pytest.mark.parametrize(
  "top_k, kept",
  [
    (1, [[0, 1, 0, 0, 0], [0, 0, 0, 1, 0]]),
    (2, [[0, 1, 0, 1, 0], [0, 0, 0, 1, 1]]),
    (5, ALL),
    (9, ALL),
  ],
)
def test_top_k(top_k, kept):
  check(rollout.sampler(1.0, top_k=top_k), kept)


@pytest.mark.parametrize(
  "top_p, kept",
  [
    # Probabilities, largest first: .6281 .2311 .0850 .0516 .0042, and
    # .4166 .3244 .2527 .0046 .0017, by exp(logit) / sum.
    (1e-9, [[0, 1, 0, 0, 0], [0, 0, 0, 1, 0]]),
    (0.5, [[0, 1, 0, 0, 0], [0, 0, 0, 1, 1]]),
    (0.7, [[0, 1, 0, 1, 0], [0, 0, 0, 1, 1]]),
    (0.9, [[1, 1, 0, 1, 0], [0, 0, 1, 1, 1]]),
    (1.0, ALL),
  ],
)
def test_top_p(top_p, kept):
  check(rollout.sampler(1.0, top_p=top_p), kept)


def test_top_p_of_one_keeps_what_rounding_hides():
  # In float32 the first token's probability is exactly 1.
  logits = jnp.array([[30.0, 0.0, 1.0]], jnp.float32)
  actual, _ = probabilities(rollout.sampler(1.0, top_p=1.0), logits)
  np.testing.assert_allclose(actual, softmax(logits), rtol=2e-6)


def test_top_p_counts_what_top_k_left():
  # Of two tokens .6281 .2311 the first has .73 of the mass.
  settings = rollout.sampler(1.0, top_k=2, top_p=0.7)
  check(settings, [[0, 1, 0, 0, 0], [0, 0, 0, 1, 1]])


def test_top_p_sees_the_temperature():
  # At T = 2 the first row's probabilities are .4268 .2589 .1570 .1223 .0350.
  settings = rollout.sampler(2.0, top_p=0.5)
  kept = [[0, 1, 0, 1, 0], [0, 0, 0, 1, 1]]
  check(settings, kept, temperature=2.0)


def test_ties_at_the_boundary_are_kept():
  logits = jnp.array([[2.0, 1.0, 1.0, 0.0]], jnp.float32)
  actual, _ = probabilities(rollout.sampler(1.0, top_k=2), logits)
  # e^2 : e : e.
  np.testing.assert_allclose(
    actual[0], [0.5761169, 0.2119416, 0.2119416, 0.0], atol=1e-6
  )


@pytest.mark.parametrize("settings", [(0.0, None, None), (0.0, 3, 0.9)])
def test_greedy(settings):
  settings = rollout.sampler(*settings)
  actual, entropy = probabilities(settings)
  np.testing.assert_array_equal(actual, [[0, 1, 0, 0, 0], [0, 0, 0, 1, 0]])
  np.testing.assert_array_equal(entropy, [0.0, 0.0])
  tied = jnp.array([[1.0, 1.0, 0.0]], jnp.float32)
  actual, entropy = probabilities(settings, tied)
  np.testing.assert_array_equal(actual, [[1, 0, 0]])
  assert entropy[0] == 0.0


def test_top_one_is_greedy():
  keys = jax.random.split(jax.random.key(0), 2)
  position = jnp.array([0, 4], jnp.int32)
  shaped = sampling.shape_logits(LOGITS, rollout.sampler(5.0, top_k=1))
  assert sampling.draw(shaped, keys, position).tolist() == [1, 3]


def test_bfloat16_logits_are_shaped_in_float32():
  narrow = LOGITS.astype(jnp.bfloat16)
  settings = rollout.sampler(0.7, top_p=0.9)
  shaped = sampling.shape_logits(narrow, settings)
  assert shaped.dtype == jnp.float32
  wide = sampling.shape_logits(narrow.astype(jnp.float32), settings)
  np.testing.assert_array_equal(shaped, wide)


def test_draws_follow_the_distribution():
  """Pearson's statistic of 20000 draws of four tokens, at 5 sigma."""
  draws = 20000
  logits = jnp.array([[0.0, 1.0, -1.0, 2.0]], jnp.float32)
  shaped = jnp.broadcast_to(
    sampling.shape_logits(logits, rollout.sampler(1.5)), (draws, 4)
  )
  row = jnp.arange(draws, dtype=jnp.int32)
  zero = jnp.zeros_like(row)
  keys = rollout.row_keys(jax.random.key(7), zero, row // 8, zero, row % 8)
  counts = np.bincount(sampling.draw(shaped, keys, row % 5), minlength=4)
  expected = draws * softmax(np.float64(logits[0]) / 1.5)
  statistic = ((counts - expected) ** 2 / expected).sum()
  # Three degrees of freedom: P(statistic > 31.8) = 5.7e-7, two-sided 5 sigma.
  assert statistic < 31.8


def test_noise_depends_on_key_and_position_alone():
  shaped = jnp.zeros((3, 50), jnp.float32)
  keys = jax.random.split(jax.random.key(1), 3)
  position = jnp.array([0, 3, 9], jnp.int32)
  drawn = sampling.draw(shaped, keys, position)
  expected = [
    int(jnp.argmax(jax.random.gumbel(jax.random.fold_in(k, p), (50,))))
    for k, p in zip(keys, [0, 3, 9])
  ]
  assert drawn.tolist() == expected
  order = jnp.array([2, 0, 1])
  moved = sampling.draw(shaped, keys[order], position[order])
  assert moved.tolist() == drawn[order].tolist()


# --- icdf


def uniforms(keys, position):
  own = jax.vmap(jax.random.fold_in)(keys, position)
  return np.asarray(jax.vmap(jax.random.uniform)(own), np.float64)


@pytest.mark.parametrize("vocab", [3, 64, 65, 1000])
def test_icdf_takes_the_first_token_beyond_its_number(vocab):
  """Against sums in float64, one number for each row."""
  rows = 4000
  logits = 2 * jax.random.normal(jax.random.key(3), (rows, vocab))
  cut = jax.random.bernoulli(jax.random.key(4), 0.3, logits.shape)
  shaped = jnp.where(cut.at[:, 1].set(False), -jnp.inf, logits)
  keys = jax.random.split(jax.random.key(5), rows)
  position = jnp.arange(rows, dtype=jnp.int32) % 7
  drawn = np.asarray(sampling.draw(shaped, keys, position, "icdf"))
  upto = np.cumsum(softmax(np.asarray(shaped, np.float64)), axis=-1)
  u = uniforms(keys, position)
  expected = np.sum(upto <= u[:, None], axis=-1)
  row = np.arange(rows)
  assert np.all(np.isfinite(np.asarray(shaped)[row, drawn]))
  # Another token only where the number lies at the edge of the right one.
  other = np.flatnonzero(drawn != expected)
  assert len(other) < rows / 500
  edge = np.min(np.abs(upto[other] - u[other, None]), axis=-1)
  assert np.all(edge < 1e-5)


def test_icdf_at_the_ends_of_the_sum():
  """Numbers of 0 and just below 1, where tokens without mass stand."""
  none = -jnp.inf
  shaped = jnp.array([[none, 0.0, none, 1.0, none]] * 2, jnp.float32)
  ends = jnp.array([0.0, 1 - 2**-24], jnp.float32)
  assert sampling._first_beyond(shaped, ends).tolist() == [1, 3]
  # Thousands of small masses whose rounded sum is not the sum of the blocks.
  wide = jnp.full((1, 5000), -7.3, jnp.float32).at[:, 4900:].set(none)
  last = sampling._first_beyond(wide, ends[1:])
  assert 4890 <= int(last[0]) < 4900


def test_icdf_is_greedy_without_temperature():
  logits = jax.random.normal(jax.random.key(6), (5, 200))
  shaped = sampling.shape_logits(logits, rollout.sampler(0.0, noise="icdf"))
  keys = jax.random.split(jax.random.key(7), 5)
  drawn = sampling.draw(shaped, keys, jnp.zeros(5, jnp.int32), "icdf")
  np.testing.assert_array_equal(drawn, jnp.argmax(logits, axis=-1))


def test_row_keys_are_folded_identities():
  key = jax.random.key(5)
  identity = [
    [2, 2, 2, 2, 3],
    [7, 8, 7, 7, 7],
    [0, 0, 1, 0, 0],
    [1, 1, 1, 0, 1],
  ]
  keys = rollout.row_keys(key, *jnp.array(identity, jnp.int32))
  expected = key
  for number in (2, 7, 0, 1):
    expected = jax.random.fold_in(expected, number)
  rows = jax.random.key_data(keys)
  np.testing.assert_array_equal(rows[0], jax.random.key_data(expected))
  # Each of the four numbers matters.
  assert len({tuple(row) for row in rows.tolist()}) == 5


@pytest.mark.parametrize(
  "setting, message",
  [
    ({"temperature": -0.1}, "temperature=-0.1: must be at least 0"),
    ({"temperature": float("nan")}, "temperature=nan"),
    ({"top_k": 0}, "top_k=0: at least 1"),
    ({"top_p": 0.0}, r"top_p=0.0: in \(0, 1\]"),
    ({"top_p": 1.5}, "top_p=1.5"),
    ({"noise": "cauchy"}, "noise='cauchy': must be one of"),
  ],
)
def test_bad_settings(setting, message):
  with pytest.raises(ValueError, match=message):
    rollout.sampler(**setting)
