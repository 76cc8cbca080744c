"""Rules of a free slot: what one more row is worth, by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate, apportion, posterior
from jaxroll.types import Allocator
from tests.allocate import columns

P = 8
RULES = {
  "slot_elimination": allocate.slot_elimination(),
  "slot_mixed": allocate.slot_mixed(),
  "slot_variance": allocate.slot_variance(),
}


def scored(success, failure):
  """Tally of so many rewards of 1 and of 0, by prompt."""
  return columns.tally(
    [[1.0] * s + [0.0] * f for s, f in zip(success, failure)]
  )


def prior(alpha, beta):
  stats = posterior.init(P)
  return stats.replace(
    alpha=jnp.full(P, alpha, jnp.float32), beta=jnp.full(P, beta, jnp.float32)
  )


def numbers(*some):
  """An i32[P] that begins with these."""
  return jnp.asarray(some + (0,) * (P - len(some)), jnp.int32)


def pad(some):
  return some + [0] * (P - len(some))


def call(fn, stats, tally, counts):
  known = {"stats": stats, "tally": tally, "counts": counts}
  return np.asarray(fn(**columns.bind(fn, known)))


# --- the gains


def test_slot_mixed_by_hand():
  # Prior Beta(1, 1).
  tally = scored(pad([2, 0, 0, 1, 0]), pad([0, 2, 0, 1, 0]))
  counts = numbers(3, 2, 2, 4, 1)
  gain = call(allocate.slot_mixed().gain, prior(1.0, 1.0), tally, counts)
  expected = [
    # Two right, one runs, p = 3/4: still tied with 3/4, then wrong.
    3 / 4 * 1 / 4,
    # Two wrong, none runs, p = 1/4: right.
    1 / 4,
    # Two run, p = 1/2: 2 * (1/2)^3.
    1 / 4,
    # Mixed: after all the others, the smaller group first.
    -4,
    # One runs: 1/2 that the second differs.
    1 / 2,
    # No row begun: one row alone is no mixed group.
    0,
    0,
    0,
  ]
  np.testing.assert_allclose(gain, expected, rtol=1e-6)


def test_slot_mixed_sees_what_is_running_only_once():
  """Nothing scored: the growth of 1 - p^h - (1 - p)^h itself."""
  counts = jnp.arange(P, dtype=jnp.int32)
  none = posterior.tally_init(P)
  gain = call(allocate.slot_mixed().gain, prior(1.0, 3.0), none, counts)
  p_mixed = lambda h: 1 - 0.25**h - 0.75**h if h else 0.0  # noqa: E731
  expected = [p_mixed(h + 1) - p_mixed(h) for h in range(P)]
  np.testing.assert_allclose(gain, expected, atol=1e-6)


def test_slot_variance_by_hand():
  tally = scored(pad([2, 0]), pad([0, 2]))
  counts = numbers(2, 3, 4, 1)
  gain = call(allocate.slot_variance().gain, prior(1.0, 1.0), tally, counts)
  # p (1 - p) / (h (h + 1)), p (1 - p) where h = 0.
  expected = [3 / 16 / 6, 3 / 16 / 12, 1 / 4 / 20, 1 / 4 / 2] + [1 / 4] * 4
  np.testing.assert_allclose(gain, expected, rtol=1e-6)


def test_slot_elimination_by_hand():
  rule = allocate.slot_elimination(cap=4)
  tally = scored(pad([1, 3, 0, 2]), pad([1, 0, 3, 1]))
  counts = numbers(2, 3, 4, 3)
  args = (prior(1.0, 1.0), tally, counts)
  decided = call(rule.decided, *args)
  assert decided.tolist() == [True, False, False, True] + [False] * 4
  gain = call(rule.gain, *args)
  np.testing.assert_array_equal(gain[1:3], [-3, -np.inf])


def test_slot_elimination_until_balanced():
  done = functools.partial(allocate.until.balanced, group=4)
  rule = allocate.slot_elimination(done=done)
  tally = scored(pad([1, 2]), pad([3, 2]))
  decided = call(rule.decided, prior(1.0, 1.0), tally, numbers(4, 4))
  assert decided.tolist() == [False, True] + [False] * 6


# --- what all of them promise


def hand_out(rule: Allocator, stats, tally, begun, budget):
  """One row after the other to the prompt of largest gain, as a slot does."""

  @jax.jit
  def give(counts):
    known = {"stats": stats, "tally": tally, "counts": counts}
    gain = rule.gain(**columns.bind(rule.gain, known))
    best = jnp.argmax(gain)
    return counts.at[best].add(jnp.isfinite(gain[best]).astype(jnp.int32))

  counts = begun
  for _ in range(budget - int(begun.sum())):
    counts = give(counts)
  return np.asarray(counts)


@pytest.mark.parametrize("name", RULES)
def test_gains_do_not_rise_and_caps_hold(name):
  capped = getattr(allocate, name)(cap=5)
  tally = scored([1, 0, 2, 0, 1, 0, 0, 0], [0, 1, 0, 2, 1, 0, 0, 0])
  stats = prior(1.0, 2.0)
  last = np.full(P, np.inf)
  for h in range(2, 8):
    gain = call(capped.gain, stats, tally, jnp.full(P, h, jnp.int32))
    assert gain.dtype == np.float32 and (gain <= last).all()
    assert (gain == -np.inf).all() == (h >= 5)
    last = gain
  counts = hand_out(capped, stats, tally, jnp.full(P, 2, jnp.int32), 60)
  assert counts.max() == 5


def test_slot_mixed_is_the_greedy_choice():
  """With nothing scored, what `apportion.greedy` makes of the same gains."""
  stats = columns.stats(P)
  begun = jnp.full(P, 2, jnp.int32)
  none = posterior.tally_init(P)
  counts = hand_out(allocate.slot_mixed(), stats, none, begun, 40)
  p = posterior.mean(stats)
  table = apportion.gain_table(
    lambda have: apportion.mixed_gain(p, have), begun, 24
  )
  np.testing.assert_array_equal(counts, 2 + apportion.greedy(table, 24))


def test_slot_variance_settles_at_neyman():
  """In proportion to sqrt(p (1 - p)): .5 and .1 give 5 to 3."""
  stats = posterior.init(2).replace(
    alpha=jnp.array([500.0, 100.0]), beta=jnp.array([500.0, 900.0])
  )
  none, begun = posterior.tally_init(2), jnp.full(2, 2, jnp.int32)
  counts = hand_out(allocate.slot_variance(), stats, none, begun, 80)
  assert counts.tolist() == [50, 30]


@pytest.mark.parametrize("name", RULES)
def test_bad_numbers_are_refused(name):
  make = getattr(allocate, name)
  with pytest.raises(ValueError, match="floor=0 must be >= 1"):
    make(floor=0)
  with pytest.raises(ValueError, match="cap=2 < floor=3: raise the cap"):
    make(floor=3, cap=2)
  with pytest.raises(ValueError, match="budget=23 .*at least 24"):
    make(floor=3).rounds(23, 8)


def test_the_plan_is_what_the_caps_allow():
  assert allocate.slot_mixed(cap=4).rounds(100, 8) == (32,)
  assert allocate.slot_mixed().rounds(100, 8) == (100,)
