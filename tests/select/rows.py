"""A step's rows, as the selectors' updates see them."""

import jax.numpy as jnp
import numpy as np

from jaxroll import types


def step(ids, rewards, **columns):
  """Groups of scored rewards, one list a prompt, as columns by name."""
  size = [len(group) for group in rewards]
  reward = np.concatenate([np.asarray(group, np.float32) for group in rewards])
  group = np.repeat(np.arange(len(rewards)), size)
  made = {
    "ids": jnp.asarray(ids, jnp.int32),
    "group": jnp.asarray(group, jnp.int32),
    "status": jnp.full(reward.shape, types.SCORED, jnp.int32),
    "reward": jnp.asarray(reward, jnp.float32),
  }
  return made | columns


def sample(seed, num_ids):
  """Columns of a step with an empty slot and rows that were not scored."""
  rng = np.random.default_rng(seed)
  ids = rng.permutation(num_ids)[:6].astype(np.int32)
  ids[4] = -1
  group = rng.integers(0, 6, 24).astype(np.int32)
  status = np.where(rng.random(24) < 0.8, types.SCORED, types.ABORTED)
  status[group == 4] = types.ABORTED
  return {
    "ids": jnp.asarray(ids),
    "group": jnp.asarray(group),
    "status": jnp.asarray(status, jnp.int32),
    "reward": jnp.asarray(rng.integers(0, 2, 24), jnp.float32),
    "entropy": jnp.asarray(rng.random((24, 5)), jnp.float32),
    "length": jnp.asarray(rng.integers(1, 6, 24), jnp.int32),
    "given_length": jnp.asarray(rng.integers(0, 2, 24), jnp.int32),
  }
