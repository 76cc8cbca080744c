r"""Which sources are both far from done and still improving?

Each source has a curve that falls while it is learned. With E_r the moving
average of the r-th newest window of W values (E_0 the newest),

  gap_k = E_0 / max(init_k, least),
  velocity_k = max(0, -mean_r (E_r - E_{r+1}) / |E_{r+1}|),
  s = gap velocity / max(gap velocity),
  p_k = floor + (1 - K floor) softmax(s / temperature)_k,

every `every` steps; each step draws p_k (1 + jitter u_k), u ~ U(-1, 1), made
to sum to 1. Until two windows are full the mixture is uniform.

D3-MOPD (2026), arXiv:2608.24987. There the curve is the reverse KL to the
source's teacher; without teachers, 1 - the mean reward.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.mixture import _sources
from jaxroll.types import Method


class Curves(NamedTuple):
  """What D3-MOPD remembers.

  Attributes:
    values: f32[K, (R + 1) W], oldest first, the last `count` are real.
    count: i32[], values so far. start: f32[K], mean of the first ones.
    weights: f32[K], the mixture before jitter.
  """

  values: jax.Array
  count: jax.Array
  start: jax.Array
  weights: jax.Array


def missing(reward):
  """1 - reward: what a solve rate lacks.

  >>> missing(0.25)
  0.75
  """
  return 1 - reward


def gap_velocity(values, count, start, *, window=10, least=0.15):
  """How far each curve is from done, and how fast it falls.

  Args:
    values: f32[K, (R + 1) window], oldest first; the last `count` are real.
    count: i32[], may be traced; what exceeds the length does not matter.
    start: f32[K], mean of the curve's first values.
    window: W, values a window.
    least: lower bound of the start value that the gap is relative to.

  Returns:
    gap, velocity: f32[K]; velocity 0 where there are not two full windows.

  Example:
    >>> values = jnp.array([[4.0, 4.0, 2.0, 2.0]])
    >>> gap, velocity = gap_velocity(values, 4, jnp.array([4.0]), window=2)
    >>> gap.tolist(), velocity.tolist()
    ([0.5], [0.5])
  """
  pieces = values.reshape(values.shape[0], -1, window)[:, ::-1]
  rate = 2 / (window + 1)
  average = pieces[..., 0]
  for place in range(1, window):
    average = rate * pieces[..., place] + (1 - rate) * average
  new, old = average[:, :-1], average[:, 1:]
  relative = numerics.safe_divide(new - old, jnp.abs(old))
  pair = jnp.arange(new.shape[1], dtype=jnp.int32)
  real = jnp.broadcast_to((pair[None, :] + 2) * window <= count, relative.shape)
  change = numerics.masked_mean(relative, real, axis=1)
  return average[:, 0] / jnp.maximum(start, least), jnp.maximum(-change, 0.0)


def weigh(gap, velocity, *, temperature=0.5, floor=0.1):
  """The mixture of gaps and velocities.

  Args:
    gap, velocity: f32[K], >= 0.
    temperature: > 0.
    floor: least weight, in [0, 1 / K].

  Returns:
    f32[K] >= floor that sums to 1; uniform where no curve falls.

  Example:
    >>> weigh(jnp.array([0.5, 0.5]), jnp.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
  """
  raw = gap * velocity
  most = jnp.max(raw)
  score = numerics.safe_divide(raw, jnp.where(most < 1e-12, 0.0, most))
  share = jax.nn.softmax(score / temperature)
  return floor + (1 - gap.shape[0] * floor) * share


def jittered(weights, noise, jitter):
  """weights (1 + jitter noise), made to sum to 1.

  Args:
    weights: f32[K].
    noise: f32[K] in [-1, 1].
    jitter: in [0, 1].

  Returns:
    f32[K] that sums to 1.

  Example:
    >>> jittered(jnp.array([0.5, 0.5]), jnp.array([1.0, -1.0]), 0.5).tolist()
    [0.75, 0.25]
  """
  p = weights * (1 + jitter * noise)
  return p / jnp.sum(p)


def d3_mopd(
  *,
  signal: Callable = missing,
  every: int = 10,
  window: int = 10,
  pairs: int = 3,
  first: int = 5,
  least: float = 0.15,
  temperature: float = 0.5,
  floor: float = 0.1,
  jitter: float = 0.3,
) -> Method:
  """The mixture by gap times velocity.

  Args:
    signal: reward f32[B] -> f32[B], what the curves are the means of, >= 0
      and falling with progress; `jnp.negative` for a reward of -KL.
    every: steps between two mixtures, >= 1.
    window: W, values a window, >= 1.
    pairs: R, most pairs of neighbouring windows, >= 1.
    first: values that a curve's start is the mean of, >= 1.
    least: lower bound of the start value in the gap, > 0.
    temperature: of the softmax, > 0.
    floor: least weight before jitter, at most 1 / K.
    jitter: relative noise of each step's weights, in [0, 1].

  Returns:
    types.Method with state `Curves`. A source without rows in a step repeats
    its last value, and counts as reward 0 until it has one.

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> d3_mopd(every=5).apply.__name__
    'apply'

  Note:
    The signal of rewards is derived here: the paper distils from teachers.

  Reference:
    D3-MOPD, 2026, arXiv:2608.24987.
  """
  _sources.check_positive(
    every=every,
    window=window,
    pairs=pairs,
    first=first,
    least=least,
    temperature=temperature,
  )
  if not 0 <= jitter <= 1:
    raise ValueError(f"jitter={jitter} must lie in [0, 1]")

  def init(sizes, *, key):
    del key
    size = sizes.num_sources
    _sources.check_floor(floor, size)
    # Until a source has a row, its curve is that of reward 0.
    return Curves(
      jnp.full((size, (pairs + 1) * window), signal(0.0), jnp.float32),
      jnp.zeros((), jnp.int32),
      jnp.zeros((size,), jnp.float32),
      _sources.uniform(size),
    )

  def apply(state, *, step, key):
    del step
    noise = jax.random.uniform(
      key, state.weights.shape, jnp.float32, minval=-1.0, maxval=1.0
    )
    return jittered(state.weights, noise, jitter), state

  def update(state, source, group, status, reward):
    count, mean = _sources.moments(
      signal(reward), source, group, status, state.weights.shape[0]
    )
    value = jnp.where(count > 0, mean, state.values[:, -1])
    values = jnp.concatenate([state.values[:, 1:], value[:, None]], axis=1)
    number = state.count + 1
    share = 1 / number.astype(jnp.float32)
    moved = state.start + share * (value - state.start)
    start = jnp.where(number <= first, moved, state.start)
    gap, velocity = gap_velocity(
      values, number, start, window=window, least=least
    )
    new = weigh(gap, velocity, temperature=temperature, floor=floor)
    due = (number % every == 0) & (number >= 2 * window)
    return Curves(values, number, start, jnp.where(due, new, state.weights))

  return Method(init, apply, update)
