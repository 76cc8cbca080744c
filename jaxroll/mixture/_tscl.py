"""What if the sources whose reward moves fastest got more of the step?

  weights = max(softmax(|slope_k| / temperature), floor) / sum

slope_k is the least-squares slope of source k's mean reward over the steps of
a window, each step weighted by its rollouts. The absolute value also brings
back a source that is being forgotten.

Teacher-student curriculum learning: Matiisen et al. 2017, arXiv:1707.00183;
as a mixture: DataFlex-RL (2026), arXiv:2609.06107.
"""

import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.mixture import _sources, _window
from jaxroll.types import Method


def slope(y, count):
  """Weighted least-squares slope of each column over its rows' numbers.

  Args:
    y: f32[W, K], unread where count is 0.
    count: f32[W, K], weights >= 0.

  Returns:
    f32[K], change a row; 0 where fewer than two rows have weight.

  Example:
    >>> slope(jnp.array([[1.0], [3.0], [5.0]]), jnp.ones((3, 1))).tolist()
    [2.0]
  """
  x = jnp.arange(y.shape[0], dtype=jnp.float32)[:, None]
  x = _centred(jnp.broadcast_to(x, y.shape), count)
  y = _centred(jnp.where(count > 0, y, 0.0), count)
  return numerics.safe_divide(
    jnp.sum(count * x * y, axis=0), jnp.sum(count * x * x, axis=0)
  )


def _centred(x, count):
  """Less each column's weighted mean."""
  mean = numerics.safe_divide(
    jnp.sum(count * x, axis=0), jnp.sum(count, axis=0)
  )
  return x - mean[None, :]


def moving(slopes, *, temperature=0.01, floor=0.05):
  """More weight for a steeper slope of either sign.

  Args:
    slopes: f32[K], reward a step.
    temperature: > 0, reward a step.
    floor: least weight before the sum is made 1.

  Returns:
    f32[K] that sums to 1.

  Example:
    >>> weights = moving(jnp.array([0.02, -0.03, 0.0]))
    >>> [round(float(x), 4) for x in weights]
    [0.2557, 0.695, 0.0493]
  """
  return _sources.softmax(jnp.abs(slopes), temperature, floor)


def tscl(
  *,
  temperature: float = 0.01,
  floor: float = 0.05,
  window: int = 50,
  every: int = 5,
  warmup: int = 5,
) -> Method:
  """The mixture by learning progress.

  Args:
    temperature: of the softmax, in reward a step, > 0.
    floor: least weight before the sum is made 1, at most 1 / K.
    window: steps that the slopes are over, >= 1.
    every: steps between two mixtures, >= 1.
    warmup: steps with equal weights at the start, >= 0.

  Returns:
    types.Method with state `Window`.

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> tscl(window=20).apply.__name__
    'apply'

  Note:
    That a step counts by its rollouts of a source is derived here: a mean of
    few rollouts is a noisier point of the line.

  Reference:
    Matiisen et al. 2017, arXiv:1707.00183; DataFlex-RL, 2026,
    arXiv:2609.06107.
  """
  _sources.check_positive(temperature=temperature)

  def score(state):
    return slope(numerics.safe_divide(state.reward, state.count), state.count)

  def weigh(slopes, rows):
    del rows
    return moving(slopes, temperature=temperature, floor=floor)

  return _window.method(
    score, weigh, floor=floor, window=window, every=every, warmup=warmup
  )
