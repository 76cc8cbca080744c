"""What if the sources that lag behind got more of the step?

  weights = max(softmax((max_j mean_j - mean_k) / temperature), floor) / sum

mean_k is the mean reward of source k's rollouts in a window of steps.

DataFlex-RL (2026), arXiv:2609.06107.
"""

import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.mixture import _sources, _window
from jaxroll.types import Method


def lagging(mean, *, temperature=1.0, floor=0.05):
  """More weight for a lower mean.

  Args:
    mean: f32[K].
    temperature: > 0.
    floor: least weight before the sum is made 1.

  Returns:
    f32[K] that sums to 1.

  Example:
    >>> weights = lagging(jnp.array([0.8, 0.5, 0.2]))
    >>> [round(float(x), 6) for x in weights]
    [0.239694, 0.323554, 0.436752]
  """
  return _sources.softmax(jnp.max(mean) - mean, temperature, floor)


def reward_gap(
  *,
  temperature: float = 1.0,
  floor: float = 0.05,
  window: int = 50,
  every: int = 5,
  warmup: int = 5,
) -> Method:
  """The mixture by reward gap.

  Args:
    temperature: of the softmax, > 0.
    floor: least weight before the sum is made 1, at most 1 / K.
    window: steps that the means are of, >= 1.
    every: steps between two mixtures, >= 1.
    warmup: steps with equal weights at the start, >= 0.

  Returns:
    types.Method with state `Window`. Means are of all rollouts of a window,
    so that a step with more of a source counts for more.

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> reward_gap(temperature=0.5).apply.__name__
    'apply'

  Reference:
    DataFlex-RL, 2026, arXiv:2609.06107.
  """
  _sources.check_positive(temperature=temperature)

  def score(state):
    total = jnp.sum(state.reward, axis=0)
    return numerics.safe_divide(total, jnp.sum(state.count, axis=0))

  def weigh(mean, rows):
    del rows
    return lagging(mean, temperature=temperature, floor=floor)

  return _window.method(
    score, weigh, floor=floor, window=window, every=every, warmup=warmup
  )
