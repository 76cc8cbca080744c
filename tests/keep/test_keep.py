"""The keep functions' typed-in values."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import keep

GROUP = jnp.array([0, 0, 1, 1, 2, 2], jnp.int32)


def test_mixed_drops_tied_groups_and_groups_of_one():
  reward = jnp.array([1.0, 0.0, 0.3, 0.3, 1.0, 0.0])
  valid = jnp.array([1, 1, 1, 1, 1, 0], bool)
  kept = keep.mixed(reward, GROUP, num_groups=3, valid=valid)
  assert kept.tolist() == [True, True, False, False, False, False]


def test_mixed_sees_the_smallest_difference():
  reward = jnp.array([0.1, np.nextafter(np.float32(0.1), np.float32(1))] * 3)
  kept = keep.mixed(reward, GROUP, num_groups=3, valid=jnp.ones(6, bool))
  assert kept.all()


def test_committed_keeps_groups_that_hold_carried_rows():
  kept = keep.committed(GROUP, jnp.array([False, True, False]))
  assert kept.tolist() == [False, False, True, True, False, False]


def test_stopped_drops_truncated_rows():
  assert keep.stopped(jnp.array([True, False])).tolist() == [True, False]


def test_stopped_refuses_what_is_not_a_mask():
  with pytest.raises(AssertionError):
    keep.stopped(jnp.array([1.0, 0.0]))
