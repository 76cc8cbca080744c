"""The trust functions' typed-in values."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import trust

# Ratios by token: 1.25, 4, 0.25 | 0.8, 0.5, (masked); by row: 1.25 and 0.4.
RATIO = np.array([[1.25, 4.0, 0.25], [0.8, 0.5, 99.0]])
MASK = jnp.array([[1, 1, 1], [1, 1, 0]], bool)
OLD = jnp.full((2, 3), -1.0)
BEHAVIOUR = jnp.asarray(-1.0 - np.log(RATIO), jnp.float32)


@pytest.mark.parametrize(
  "name, hyper, expected",
  [
    ("token_weight", {}, [[1.25, 2, 0.25], [0.8, 0.5, 1]]),
    ("token_weight", {"cap": np.inf}, [[1.25, 4, 0.25], [0.8, 0.5, 1]]),
    ("sequence_weight", {}, [[1.25] * 3, [0.4, 0.4, 1]]),
    ("sequence_weight", {"cap": 1.0}, [[1] * 3, [0.4, 0.4, 1]]),
    ("token_mask", {"low": 0.4}, [[1.25, 0, 0], [0.8, 0.5, 1]]),
    ("token_mask", {"high": 5.0, "low": 0.6}, [[1.25, 4, 0], [0.8, 0, 1]]),
    ("sequence_mask", {}, [[1.25] * 3, [0, 0, 1]]),
    ("sequence_mask", {"low": 0.0, "high": 1.2}, [[0] * 3, [0.4, 0.4, 1]]),
  ],
)
def test_weight(name, hyper, expected):
  out = getattr(trust, name)(OLD, BEHAVIOUR, MASK, **hyper)
  np.testing.assert_allclose(out.weight, expected, rtol=1e-5)
  assert np.all(np.asarray(out.low) == 0) and np.all(np.isinf(out.high))


@pytest.mark.parametrize("name", ["token_weight", "sequence_weight"])
def test_a_huge_gap_does_not_overflow(name):
  out = getattr(trust, name)(OLD + 1e4, BEHAVIOUR, MASK)
  np.testing.assert_array_equal(np.asarray(out.weight)[MASK], 2.0)


@pytest.mark.parametrize("name", ["token_weight", "sequence_weight"])
def test_a_huge_gap_is_finite_without_a_cap(name):
  out = getattr(trust, name)(OLD + 1e4, BEHAVIOUR, MASK, cap=np.inf)
  np.testing.assert_allclose(
    np.asarray(out.weight)[MASK],
    4.851652e8,
    rtol=1e-5,  # exp(20)
  )


@pytest.mark.parametrize("name", ["token_mask", "sequence_mask"])
def test_a_huge_gap_is_left_out(name):
  for gap in (1e4, -1e4):
    out = getattr(trust, name)(OLD + gap, BEHAVIOUR, MASK)
    np.testing.assert_array_equal(np.asarray(out.weight)[MASK], 0.0)


def test_clip_is_asymmetric():
  out = trust.clip(OLD, MASK, low=0.2, high=0.28)
  np.testing.assert_allclose(out.low, 0.8, rtol=1e-6)
  np.testing.assert_allclose(out.high, 1.28, rtol=1e-6)
  np.testing.assert_array_equal(out.weight, 1.0)


def test_unbounded():
  out = trust.unbounded(OLD, MASK)
  np.testing.assert_array_equal(out.low, 0.0)
  np.testing.assert_array_equal(out.high, np.inf)
  np.testing.assert_array_equal(out.weight, 1.0)


@pytest.mark.parametrize(
  "name, hyper, message",
  [
    ("clip", {"low": 1.5}, r"low=1.5 must lie in \[0, 1\]"),
    ("clip", {"high": -0.1}, "high=-0.1 must be >= 0"),
    ("token_weight", {"cap": 0.5}, "cap=0.5 must be >= 1"),
    ("sequence_weight", {"cap": float("nan")}, "cap=nan must be >= 1"),
    ("token_mask", {"low": 1.1}, "low=1.1, high=2.0"),
    ("sequence_mask", {"high": 0.9}, "low=0.5, high=0.9"),
  ],
)
def test_refuses(name, hyper, message):
  by_sampler = () if name == "clip" else (BEHAVIOUR,)
  with pytest.raises(ValueError, match=message):
    getattr(trust, name)(OLD, *by_sampler, MASK, **hyper)


def test_an_empty_chain_is_refused():
  with pytest.raises(ValueError, match="trust chain is empty"):
    trust.merge(())
