"""Uniform selection is uniform."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import posterior, select


def test_every_id_is_as_likely():
  stats, pool = posterior.init(12), jnp.arange(2, 12)
  blocked = jnp.arange(12) < 4
  draws = 2000

  @jax.vmap
  def draw(key):
    return select.random(stats, pool, num=2, blocked=blocked, key=key)

  ids = np.asarray(draw(jax.random.split(jax.random.key(0), draws)))
  # 2 of the 8 ids 4 ... 11, each with probability 1/4; in both places alike.
  share = np.bincount(ids.ravel(), minlength=12) / draws
  sigma = np.sqrt(0.25 * 0.75 / draws)
  np.testing.assert_allclose(share[4:], 0.25, atol=5 * sigma)
  assert not share[:4].any()
  first = np.bincount(ids[:, 0], minlength=12) / draws
  sigma = np.sqrt(0.125 * 0.875 / draws)
  np.testing.assert_allclose(first[4:], 0.125, atol=5 * sigma)
