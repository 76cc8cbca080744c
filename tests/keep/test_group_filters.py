"""Which groups stay: typed-in values and edges."""

import jax.numpy as jnp
import pytest

from jaxroll import keep

# Groups of 8, 4, 2 and 2 rows.
GROUP = jnp.array([0] * 8 + [1] * 4 + [2] * 2 + [3] * 2, jnp.int32)
ROWS = {"group": GROUP, "num_groups": 5, "valid": jnp.ones(16, bool)}


def by_group(kept):
  """Whether a whole group stayed; no group may stay in part."""
  parts = [kept[GROUP == p].tolist() for p in range(4)]
  assert all(len(set(part)) == 1 for part in parts)
  return [part[0] for part in parts]


def rewards(*groups):
  return jnp.array([x for group in groups for x in group], jnp.float32)


# One 1 in 8; all 1; all 0; partial credit without a correct attempt.
MIXED = rewards([0, 0, 1, 0, 0, 0, 0, 0], [1] * 4, [0, 0], [0.5, 0.2])


def test_ready_drops_easy_and_hard_groups():
  assert by_group(keep.ready(MIXED, **ROWS)) == [True, False, False, False]
  level = by_group(keep.ready(MIXED, **ROWS, success=0.5))
  assert level == [True, False, False, True]


def test_ready_takes_no_unscored_attempt_for_a_failure():
  valid = ROWS["valid"].at[8].set(False)
  reward = MIXED.at[8].set(0.0)
  kept = keep.ready(reward, **ROWS | {"valid": valid})
  assert not kept[8:12].any()


def test_ready_is_mixed_for_rewards_of_0_and_1():
  reward = (MIXED >= 0.3).astype(jnp.float32)
  kept = keep.ready(reward, **ROWS)
  assert kept.tolist() == keep.mixed(reward, **ROWS).tolist()


def test_mean_between_is_strict():
  # Means 1/8, 1, 0 and 0.35.
  between = by_group(keep.mean_between(MIXED, **ROWS, low=0.125, high=1.0))
  assert between == [False, False, False, True]
  between = by_group(keep.mean_between(MIXED, **ROWS, low=0.1, high=0.9))
  assert between == [True, False, False, True]
  zero = by_group(keep.mean_between(MIXED, **ROWS, low=0.0, high=0.9))
  assert zero == [True, False, False, True]


def test_std_above_is_the_samples_and_strict():
  # sqrt(1/8 * 7/8 * 8/7) = 0.353553 and 0.3 / sqrt(2) = 0.212132.
  assert by_group(keep.std_above(MIXED, **ROWS, threshold=0.0)) == [
    True,
    False,
    False,
    True,
  ]
  kept = by_group(keep.std_above(MIXED, **ROWS, threshold=0.25))
  assert kept == [True, False, False, False]
  # Of the population it would be 0.330719.
  kept = by_group(keep.std_above(MIXED, **ROWS, threshold=0.34))
  assert kept == [True, False, False, False]


def test_query_filters_are_off_by_default():
  assert keep.mean_between(MIXED, **ROWS).all()
  assert keep.std_above(MIXED, **ROWS).all()


@pytest.mark.parametrize(
  "function, bounds",
  [
    (keep.mean_between, {"low": 0.1, "high": 0.9}),
    (keep.std_above, {"threshold": 0.5}),
  ],
)
def test_a_single_response_passes(function, bounds):
  valid = ROWS["valid"].at[jnp.array([9, 10, 11, 13])].set(False)
  kept = function(MIXED, **ROWS | {"valid": valid}, **bounds)
  assert kept[8] and kept[12] and not (kept & ~valid).any()


def test_difficulty_band_is_closed_but_for_0_and_1():
  # Pass rates 1/8, 1, 0 and 1/2.
  reward = MIXED.at[14:].set(jnp.array([0.0, 1.0]))
  open_band = keep.difficulty_band(reward, **ROWS, low=0, high=1)
  assert by_group(open_band) == [True, False, False, True]
  closed = keep.difficulty_band(reward, **ROWS, low=0.0, high=0.125)
  assert by_group(closed) == [True, False, True, False]
  default = keep.difficulty_band(reward, **ROWS)
  assert by_group(default) == [False, False, False, True]


def test_difficulty_band_includes_inexact_bounds():
  """1/5 and 4/5 are not exact, and lie on the default band's ends."""
  group = jnp.array([0] * 5 + [1] * 5 + [2] * 6, jnp.int32)
  reward = rewards([0, 0, 1, 0, 0], [1, 1, 1, 0, 1], [1] * 6)
  kept = keep.difficulty_band(reward, **ROWS | {"group": group})
  assert kept.tolist() == [True] * 10 + [False] * 6


# --- balanced


def kept_of(stream, **hyper):
  """Indices that `balanced` keeps of one group, padded to 32 rows."""
  stream = list(stream)
  reward = jnp.array(stream + [1.0] * (32 - len(stream)), jnp.float32)
  kept = keep.balanced(
    reward,
    jnp.zeros(32, jnp.int32),
    jnp.arange(32, dtype=jnp.int32),
    num_groups=1,
    valid=jnp.arange(32) < len(stream),
    **hyper,
  )
  return jnp.flatnonzero(kept).tolist()


def test_balanced_keeps_a_balanced_group_whole():
  assert kept_of([1, 0, 1, 0, 1, 1, 0, 0]) == list(range(8))


def test_balanced_fills_up_with_the_other_kind():
  stream = [0] * 32
  stream[9] = stream[13] = 1
  assert kept_of(stream) == [0, 1, 2, 3, 4, 5, 9, 13]


def test_balanced_takes_the_earliest_of_each_kind():
  stream = [1] * 6 + [0] + [1] * 5 + [0] * 4
  assert kept_of(stream) == [0, 1, 2, 3, 6, 12, 13, 14]


def test_balanced_skips_a_group_of_one_kind():
  assert kept_of([0] * 32) == []
  assert kept_of([1] * 8) == []
  assert kept_of([0.9] * 8 + [0.1] * 8) == []
  assert kept_of([0.9] * 8 + [0.1] * 8, success=0.9, size=2) == [0, 8]


def test_balanced_odd_size_has_the_lower_half_correct():
  assert kept_of([1, 1, 1, 0, 0, 0], size=3) == [0, 3, 4]


def test_balanced_keeps_all_of_a_small_group():
  assert kept_of([1, 1, 1, 0]) == [0, 1, 2, 3]


def test_balanced_follows_the_index_not_the_row():
  reward = jnp.array([1, 1, 0, 0], jnp.float32)
  kept = keep.balanced(
    reward,
    jnp.zeros(4, jnp.int32),
    jnp.array([3, 1, 2, 0], jnp.int32),
    num_groups=1,
    valid=jnp.ones(4, bool),
    size=2,
  )
  assert kept.tolist() == [False, True, False, True]


# --- what is refused


@pytest.mark.parametrize(
  "function, hyper, words",
  [
    (keep.mean_between, {"low": 0.9, "high": 0.9}, "low=0.9, high=0.9"),
    (keep.difficulty_band, {"low": -0.1}, "low=-0.1"),
    (keep.difficulty_band, {"low": 0.9}, "low=0.9, high=0.8"),
  ],
)
def test_refuses(function, hyper, words):
  with pytest.raises(ValueError, match=words):
    function(MIXED, **ROWS, **hyper)


def test_balanced_refuses_groups_of_one():
  with pytest.raises(ValueError, match="size=1"):
    kept_of([1, 0], size=1)
