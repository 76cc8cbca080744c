"""Draws by closeness to a solve rate of one half."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import posterior, select

N = 4


def _stats(rate):
  rate = jnp.asarray(rate, jnp.float32)
  stats = posterior.init(N)
  return stats.replace(alpha=1e3 * rate, beta=1e3 * (1 - rate))


def test_shares_are_the_softmax_of_the_distance():
  # The source's sampling_probs([.5, .501, .49, .9]) at temperature .001.
  stats = _stats([0.5, 0.501, 0.49, 0.9])

  @jax.jit
  @jax.vmap
  def draw(key):
    return select.moderate(
      stats, jnp.arange(N), num=1, key=key, temperature=1e-3
    )

  ids = np.asarray(draw(jax.random.split(jax.random.key(0), 4000))).ravel()
  share = np.bincount(ids, minlength=N) / ids.size
  np.testing.assert_allclose(
    share, [0.731034, 0.268932, 3.3e-5, 0], atol=5 * 0.45 / 4000**0.5
  )


def test_a_cold_draw_is_greedy():
  stats = _stats([0.05, 0.4, 0.55, 0.97])
  choose = lambda **kwargs: select.moderate(  # noqa: E731
    stats, jnp.arange(N), num=2, key=jax.random.key(0), **kwargs
  ).tolist()
  assert choose(temperature=1e-4) == [2, 1]
  assert choose(temperature=1e-4, target=0.9) == [3, 2]


def test_numbers_out_of_range_are_refused():
  with pytest.raises(ValueError, match="target=1.5 must lie in"):
    select.moderate(
      posterior.init(N),
      jnp.arange(N),
      num=2,
      key=jax.random.key(0),
      target=1.5,
    )
