"""AERO's curation: wrong rows for right ones, and few of a flat group."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import advantage, keep

# 2 of 8 right; 7 of 8; 1 of 12; none of 16.
SIZES = (8, 8, 12, 16)
RIGHTS = (2, 7, 1, 0)
GROUP = jnp.asarray(np.repeat(np.arange(4), SIZES), jnp.int32)
REWARD = jnp.asarray(
  np.concatenate([np.arange(n) < c for n, c in zip(SIZES, RIGHTS)]),
  jnp.float32,
)
VALID = jnp.ones(44, bool)
KEY = jax.random.key(0)


def kept(fn=keep.aero, reward=REWARD, valid=VALID, key=KEY, **hyper):
  rows = fn(reward, GROUP, num_groups=4, valid=valid, key=key, **hyper)
  assert not np.any(rows & ~valid)
  return np.asarray(rows)


def by_group(rows):
  """(right, wrong) rows of each group."""
  right = np.asarray(REWARD) > 0
  return [
    tuple(int((rows & (GROUP == p) & s).sum()) for s in (right, ~right))
    for p in range(4)
  ]


def test_worked_values():
  # Rejection keeps 2 + 2 and 1 + 1; more than half right, or none: all.
  assert by_group(kept()) == [(2, 2), (7, 1), (1, 1), (0, 16)]
  assert by_group(kept(keep.thin_flat)) == [(2, 6), (7, 1), (1, 11), (0, 4)]


@pytest.mark.parametrize(
  "hyper, first, third",
  [
    ({"k": 2.0}, (2, 4), (1, 2)),
    # Rounded down, but one wrong row at least, and no more than there are.
    ({"k": 1.6}, (2, 3), (1, 1)),
    ({"k": 0.2}, (2, 1), (1, 1)),
    ({"k": 9.0}, (2, 6), (1, 9)),
    # 2 of 8 are not less than a quarter.
    ({"threshold": 0.25}, (2, 6), (1, 1)),
  ],
)
def test_numbers(hyper, first, third):
  groups = by_group(kept(**hyper))
  assert (groups[0], groups[2]) == (first, third)


def test_wrong_rows_leave_uniformly():
  keys = jax.random.split(jax.random.key(1), 2000)
  draw = lambda key: keep.aero(  # noqa: E731
    REWARD, GROUP, num_groups=4, valid=VALID, key=key
  )
  share = np.asarray(jax.jit(jax.vmap(draw))(keys)).mean(axis=0)
  # 2 of 6 wrong rows; 5 sigma of a share over 2000 draws.
  error = 5 * np.sqrt(1 / 3 * 2 / 3 / 2000)
  np.testing.assert_allclose(share[2:8], 1 / 3, atol=error)


def test_signal_is_largest_with_as_many_wrong_as_right():
  # sqrt(p (1 - p)) at 2 right and m wrong: the mean |r - mean| / 2 of the
  # standardised group is its std.
  signal = []
  for k in (0.5, 1.0, 2.0, 3.0):
    rows = kept(k=k) & (GROUP == 0)
    signal.append(float(np.std(np.asarray(REWARD)[rows])))
  np.testing.assert_allclose(
    signal, [0.471405, 0.5, 0.471405, 0.433013], rtol=1e-5
  )


def test_rejection_then_grpo():
  rows = jnp.asarray(kept())
  adv = advantage.grpo(REWARD, GROUP, num_groups=4, valid=rows, ddof=0)
  first, second = np.asarray(adv)[:8], np.asarray(adv)[8:16]
  assert sorted(first) == pytest.approx(
    [-0.999998] * 2 + [0] * 4 + [0.999998] * 2
  )
  assert second.tolist() == pytest.approx(
    [0.377963] * 7 + [-2.645743], abs=5e-6
  )


def test_rows_that_are_not_valid_do_not_count():
  # Without its wrong rows but one the first group keeps that one.
  valid = VALID.at[3:8].set(False)
  assert by_group(kept(valid=valid))[0] == (2, 1)
  # Two rows are left of the flat one.
  valid = VALID.at[30:].set(False)
  assert by_group(kept(keep.thin_flat, valid=valid))[3] == (0, 2)


def test_no_row_of_a_flat_group():
  assert by_group(kept(keep.thin_flat, n=0))[3] == (0, 0)


@pytest.mark.parametrize(
  "fn, hyper, words",
  [
    (keep.aero, {"k": 0.0}, "k=0.0 must be > 0"),
    (keep.aero, {"threshold": 1.5}, "threshold=1.5 must be in"),
    (keep.thin_flat, {"n": -1}, "n=-1 must be >= 0"),
  ],
)
def test_refuses(fn, hyper, words):
  with pytest.raises(ValueError, match=words):
    kept(fn, **hyper)
