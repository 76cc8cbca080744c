"""A step's rows, as the mixtures' updates see them."""

import jax.numpy as jnp
import numpy as np

from jaxroll import types


def step(rewards):
  """One group a source, rewards[k] those of source k."""
  size = [len(group) for group in rewards]
  reward = np.concatenate([np.asarray(x, np.float32) for x in rewards])
  group = jnp.asarray(np.repeat(np.arange(len(rewards)), size), jnp.int32)
  return {
    "source": jnp.arange(len(rewards), dtype=jnp.int32),
    "group": group,
    "status": jnp.full(group.shape, types.SCORED, jnp.int32),
    "reward": jnp.asarray(reward),
    "adv": jnp.asarray(reward) - 0.5,
    "valid": jnp.ones(group.shape, bool),
    "mask": jnp.ones((*group.shape, 2), bool),
  }


def sample(seed, num_sources):
  """A step with rows that were not scored, or scored and not kept."""
  rng = np.random.default_rng(seed)
  status = np.where(rng.random(24) < 0.7, types.SCORED, types.ABORTED)
  valid = (status == types.SCORED) & (rng.random(24) < 0.7)
  return {
    "source": jnp.asarray(rng.integers(0, num_sources, 6), jnp.int32),
    "group": jnp.asarray(rng.integers(0, 6, 24), jnp.int32),
    "status": jnp.asarray(status, jnp.int32),
    "reward": jnp.asarray(rng.random(24), jnp.float32),
    "adv": jnp.asarray(rng.normal(size=24), jnp.float32),
    "valid": jnp.asarray(valid),
    "mask": jnp.asarray(rng.random((24, 5)) < 0.7),
  }
