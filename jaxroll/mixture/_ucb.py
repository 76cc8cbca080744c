"""What if a source were worth its learning signal plus what is not yet known?

  score_k = mean |A|_k + scale sqrt(2 log(sum n + 1) / (n_k + 1))
  weights = max(softmax(score / temperature), floor) / sum

n_k counts source k's rollouts in a window of steps, mean |A|_k is the mean
size of their advantages: a source that was hardly drawn gets a bonus.

DataFlex-RL (2026), arXiv:2609.06107.
"""

import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.mixture import _sources, _window
from jaxroll.types import Method


def scores(size, count, *, scale=1.0):
  """Mean advantage size plus a bonus for few rollouts.

  Args:
    size: f32[K], mean |advantage|.
    count: f32[K], rollouts.
    scale: of the bonus, >= 0.

  Returns:
    f32[K].

  Example:
    >>> value = scores(jnp.array([0.5, 0.5]), jnp.array([99.0, 0.0]))
    >>> [round(float(x), 4) for x in value]
    [0.8035, 3.5349]
  """
  total = jnp.log(jnp.sum(count) + 1)
  return size + scale * jnp.sqrt(2 * total / (count + 1))


def ucb(
  *,
  scale: float = 1.0,
  temperature: float = 1.0,
  floor: float = 0.05,
  window: int = 50,
  every: int = 5,
  warmup: int = 5,
) -> Method:
  """The mixture by upper confidence bounds of the advantages' size.

  Args:
    scale: of the bonus for few rollouts, >= 0.
    temperature: of the softmax, > 0.
    floor: least weight before the sum is made 1, at most 1 / K.
    window: steps that means and counts are of, >= 1.
    every: steps between two mixtures, >= 1.
    warmup: steps with equal weights at the start, >= 0.

  Returns:
    types.Method with state `Window`. Rollouts that are not trained on count
    as advantages of 0.

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> ucb(scale=2.0).apply.__name__
    'apply'

  Note:
    The form of the score, its scale and its temperature are derived here.

  Reference:
    DataFlex-RL, 2026, arXiv:2609.06107.
  """
  _sources.check_positive(temperature=temperature)
  if not scale >= 0:
    raise ValueError(f"scale={scale} must be >= 0")

  def score(state):
    total = jnp.sum(state.size, axis=0)
    return numerics.safe_divide(total, jnp.sum(state.count, axis=0))

  def weigh(size, rows):
    bound = scores(size, rows, scale=scale)
    return _sources.softmax(bound, temperature, floor)

  return _window.method(
    score, weigh, floor=floor, window=window, every=every, warmup=warmup
  )
