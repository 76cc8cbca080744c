"""The posterior before a step and its tally, each reward counted once."""

import jax.numpy as jnp

from jaxroll import allocate, posterior
from tests.allocate import columns


def test_evidence_of_the_step_is_added():
  stats = posterior.init(3, prior=(1.0, 3.0))
  tally = columns.tally([[1.0, 1.0, 0.0], [], [0.5]])
  now = allocate.beliefs.so_far(stats, tally)
  assert now.alpha.tolist() == [3.0, 1.0, 1.5]
  assert now.beta.tolist() == [4.0, 3.0, 3.5]
  expected = jnp.array([3 / 7, 1 / 4, 0.3])
  assert jnp.allclose(allocate.beliefs.rate(stats, tally), expected)


def test_once_a_step_is_over_the_posterior_says_the_same():
  stats, group = posterior.init(2), jnp.array([0, 0, 1], jnp.int32)
  reward, where = jnp.array([1.0, 0.0, 1.0]), jnp.ones(3, bool)
  tally = posterior.tally_add(posterior.tally_init(2), reward, group, where)
  now = allocate.beliefs.so_far(stats, tally)
  ids, length = jnp.arange(2, dtype=jnp.int32), jnp.ones(3, jnp.int32)
  after = posterior.observe(stats, ids, reward, length, group, where, step=0)
  assert now.alpha.tolist() == after.alpha.tolist()
  assert now.beta.tolist() == after.beta.tolist()
