"""Pilot-Commit's rules at their worked values."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll.replay import _triage


def test_triage():
  mean = jnp.array([1, 1, 6, 7, 8, 0], jnp.float32) / 8
  code, evict = _triage.triage(mean)
  assert code.tolist() == [1, 1, 1, 2, 2, 0]
  assert evict.tolist() == [False, False, False, False, True, False]


def test_bounds_are_inclusive_whatever_the_rounding():
  # 1 - 0.3 and 7 / 10, 0.1 and 1 / 10 differ in their last bits.
  mean = jnp.array([7, 1], jnp.float32) * jnp.float32(0.1)
  assert _triage.triage(mean, low=0.1, up=0.3)[0].tolist() == [1, 1]


def test_commit_order():
  std = jnp.array([0.5, 0.433, 0.5, 0.33])
  step = jnp.array([3, 5, 4, 5], jnp.int32)
  valid = jnp.ones(4, bool)
  assert _triage.commit_order(std, step, valid, 2).tolist() == [2, 0]
  without = jnp.array([True, True, False, True])
  assert _triage.commit_order(std, step, without, 4).tolist() == [0, 1, 3, 2]
  # Equal in both: the lower index.
  tied = jnp.full(4, 2, jnp.int32)
  assert _triage.commit_order(std, tied, valid, 2).tolist() == [0, 2]


@pytest.mark.parametrize(
  "args, expected",
  [
    ((2, 30, 16), (2, 14)),
    ((30, 2, 16), (14, 2)),
    ((20, 20, 16), (8, 8)),
    ((20, 20, 5), (2, 3)),
    ((3, 1, 16), (3, 1)),
  ],
)
def test_maxvar_counts(args, expected):
  assert _triage.maxvar_counts(*args) == expected


def test_rollouts_per_update():
  assert _triage.rollouts_per_update(128, 0.5, 32, 96) == 20480
  # Plain groups of 128, and those of which every second one is filtered out.
  assert _triage.rollouts_per_update(128, 1.0, 32, 96) == 16384
  assert _triage.rollouts_per_update(128, 0.5, 128, 0) == 32768
  with pytest.raises(ValueError, match="keep_rate=0"):
    _triage.rollouts_per_update(128, 0, 32, 96)


def test_share_of_rollouts_in_mixed_groups():
  # 1024 rollouts, success sigmoid(d), d ~ N(-2, 4^2), 400 draws: uniform
  # groups of 16 0.517, 4 pilots and 12 commits 0.624, rejected pilots counted.
  draws = 400
  rng = np.random.default_rng(0)
  rate = 1 / (1 + np.exp(-rng.normal(-2, 4, (draws, 256))))
  pilots = rng.binomial(4, rate)
  code, _ = _triage.triage(jnp.asarray(pilots / 4, jnp.float32))
  kept = np.asarray(code) == _triage.KEPT
  # Prompts come in order until their pilots and commits fill the budget.
  spent = np.cumsum(4 + 12 * kept, axis=1)
  used = spent <= 1024
  # Kept pilots are mixed already, at means 1/4 to 3/4; rejected ones never.
  commit = (16 * (kept & used)).sum(axis=1) / np.where(used, spent, 0).max(1)
  right = rng.binomial(16, rate[:, :64])
  uniform = ((right > 0) & (right < 16)).mean(axis=1)
  for expected, share in ((0.517, uniform), (0.624, commit)):
    # Both this and the quoted figure are means of 400 draws; 0.0005 rounding.
    error = np.sqrt(2) * share.std(ddof=1) / np.sqrt(draws)
    assert abs(share.mean() - expected) < 5 * error + 0.0005
