"""Cuts, contributions and rising turns: typed-in values and edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll.keep import segments

ENTROPY = jnp.array([0.1, 2.0, 0.2, 1.8, 1.9, 0.1, 0.0, 1.0])
ALL = jnp.ones(8, bool)
SUCCESS = jnp.array([[0, 0, 1, 0], [0, 1, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1]])


def cuts(entropy=ENTROPY, valid=ALL, **hyper):
  return segments.cut_points(entropy, valid, **hyper).tolist()


def test_cut_points_are_the_highest_entropies_apart():
  assert cuts(k=3, min_gap=1) == [1, 3, 4]
  assert cuts(k=3, min_gap=2) == [1, 4, 7]


def test_cut_points_that_do_not_fit_are_missing():
  assert cuts(k=5, min_gap=3) == [1, 4, 7, -1, -1]
  assert cuts(valid=jnp.zeros(8, bool), k=2, min_gap=1) == [-1, -1]


def test_cut_points_never_lie_at_the_start_or_outside_the_trace():
  entropy = ENTROPY.at[0].set(9.0).at[7].set(jnp.inf)
  assert cuts(entropy, ALL.at[7].set(False), k=1, min_gap=1) == [1]


def test_cut_points_of_constant_entropy_are_the_first():
  assert cuts(jnp.ones(8), k=3, min_gap=2) == [1, 3, 5]


def test_cut_points_of_many_traces():
  out = jax.vmap(lambda e: segments.cut_points(e, ALL, k=2, min_gap=2))(
    jnp.stack([ENTROPY, ENTROPY[::-1]])
  )
  assert out.tolist() == [[1, 4], [3, 6]]


def test_values_contributions_and_what_helps():
  value = segments.prefix_values(SUCCESS)
  assert value.tolist() == [0.25, 0.5, 0.25, 1.0]
  assert segments.contributions(value).tolist() == [0.25, -0.25, 0.75]
  assert not segments.helps(value)
  assert segments.helps(value, tol=0.25)


def test_contributions_sum_to_the_whole_rise():
  value = jnp.asarray(np.random.default_rng(0).random(9), jnp.float32)
  total = float(segments.contributions(value).sum())
  assert total == pytest.approx(float(value[-1] - value[0]), abs=1e-6)


def test_what_was_solved_from_the_start_needs_no_trace():
  assert not segments.helps(jnp.ones(4))
  assert not segments.helps(jnp.ones(4), tol=0.5)


def test_rises_are_runs_of_turns_that_add():
  value = jnp.array([0.1, 0.3, 0.5, 0.5, 0.4, 0.6, 0.9, 0.2])
  turns = jnp.flatnonzero(segments.rises(value)).tolist()
  assert turns == [0, 1, 4, 5]
  assert not segments.rises(jnp.full(8, 0.4)).any()


def test_rises_drop_short_runs():
  value = jnp.array([0.1, 0.3, 0.2, 0.3, 0.4, 0.5, 0.5, 0.6])
  out = segments.rises(value, min_length=2)
  assert jnp.flatnonzero(out).tolist() == [2, 3, 4]
  out = segments.rises(value, min_gain=0.15)
  assert jnp.flatnonzero(out).tolist() == [0]


def test_rises_are_broken_by_nan():
  value = jnp.array([0.1, 0.2, 0.3, jnp.nan, 0.5, 0.6, 0.7, 0.8])
  out = segments.rises(value, min_length=3)
  assert jnp.flatnonzero(out).tolist() == [4, 5, 6]


@pytest.mark.parametrize(
  "call, words",
  [
    (lambda: cuts(k=0), "k=0"),
    (lambda: cuts(min_gap=0), "min_gap=0"),
    (lambda: segments.helps(jnp.ones(4), tol=-1), "tol=-1"),
    (lambda: segments.rises(jnp.ones(4), min_length=0), "min_length=0"),
    (lambda: segments.rises(jnp.ones(4), min_gain=-1), "min_gain=-1"),
  ],
)
def test_refuses(call, words):
  with pytest.raises(ValueError, match=words):
    call()
