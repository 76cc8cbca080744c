"""What if prompts were drawn by how close their solve rate is to one half?

  P(i) ~ exp(-|p_i - target| / temperature),  without replacement

A group of G binary rewards has variance p (1 - p), largest at 1/2. Drawing
without replacement is taking the largest of log P(i) + Gumbel noise (Kool, van
Hoof & Welling 2019, arXiv:1903.06059).
"""

import jax
import jax.numpy as jnp

from jaxroll import posterior
from jaxroll.select._top import top
from jaxroll.types import PromptStats, Quota


def near(rate, target, temperature, key):
  """Scores whose largest are a draw by closeness to a solve rate.

  Args:
    rate: f32[N].
    target: solve rate wanted.
    temperature: > 0.
    key: PRNG key; each id's noise depends on it and the id.

  Returns:
    f32[N], -|rate - target| / temperature + Gumbel noise.

  Example:
    >>> near(jnp.array([0.5, 0.9]), 0.5, 1e-3, jax.random.key(0)).shape
    (2,)
  """
  noise = jax.random.gumbel(key, rate.shape, jnp.float32)
  return noise - jnp.abs(rate - target) / temperature


def moderate(
  stats: PromptStats,
  pool: jax.Array,
  *,
  num: int,
  blocked: jax.Array | None = None,
  quota: Quota | None = None,
  key: jax.Array,
  target: float = 0.5,
  temperature: float = 0.05,
) -> jax.Array:
  """Prompts of moderate difficulty, by the posterior mean of their solve rate.

  Args:
    stats: PromptStats[N]; alpha and beta are read, prior included.
    pool: i32[M], ids that may be selected.
    num: ids wanted, 1 <= num <= M.
    blocked: bool[N], ids that must not be selected, or None.
    quota: types.Quota, or None.
    key: PRNG key.
    target: solve rate wanted, in [0, 1].
    temperature: > 0; small is greedy, large is uniform.

  Returns:
    i32[num], distinct ids, -1 where none is left.

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> moderate(posterior.init(4), jnp.arange(4), num=2,
    ...          key=jax.random.key(0)).shape
    (2,)

  Note:
    A prompt without evidence has the prior's mean, 1/2 by default, and is
    drawn like the best. The temperature is derived here.

  Reference:
    arXiv:1903.06059 for the draw; the criterion is that of arXiv:2506.05316.
  """
  if not (0 <= target <= 1 and temperature > 0):
    raise ValueError(
      f"moderate: target={target} must lie in [0, 1] and "
      f"temperature={temperature} be > 0"
    )
  score = near(posterior.mean(stats), target, temperature, key)
  return top(score, pool, num, blocked, quota)
