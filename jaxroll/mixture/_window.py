"""What does a sliding window over steps say of each source?"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.mixture import _sources
from jaxroll.types import Method


class Window(NamedTuple):
  """Statistics of the last W steps by source.

  Attributes:
    count: f32[W, K], scored rows, oldest step first.
    reward: f32[W, K], sums of rewards. size: f32[W, K], sums of |adv|.
    score: f32[K], the last score of each source that had data.
    weights: f32[K], the mixture. steps: i32[], steps so far.
  """

  count: jax.Array
  reward: jax.Array
  size: jax.Array
  score: jax.Array
  weights: jax.Array
  steps: jax.Array


def method(
  score: Callable, weigh: Callable, *, floor, window, every, warmup
) -> Method:
  """A mixture that is made anew of a window every few steps.

  Args:
    score: Window -> f32[K], some number of each source.
    weigh: (score f32[K], rows f32[K] of each source in the window) -> f32[K],
      the mixture.
    floor: least weight, at most 1 / K.
    window: W, steps, >= 1. every: steps between two mixtures, >= 1.
    warmup: steps with equal weights at the start, >= 0.

  Returns:
    types.Method with state `Window`. A source without a row in the window
    keeps its last score, 0 before it has one.

  Raises:
    ValueError: where a number is out of range.
  """
  _sources.check_positive(window=window, every=every)
  if not (warmup >= 0 and floor >= 0):
    raise ValueError(f"warmup={warmup} and floor={floor} must be >= 0")

  def init(sizes, *, key):
    del key
    shape = (window, sizes.num_sources)
    _sources.check_floor(floor, sizes.num_sources)
    return Window(
      *(jnp.zeros(shape, jnp.float32) for _ in range(3)),
      jnp.zeros((sizes.num_sources,), jnp.float32),
      _sources.uniform(sizes.num_sources),
      jnp.zeros((), jnp.int32),
    )

  def apply(state, *, step, key):
    del step, key
    return state.weights, state

  def update(state, source, group, status, reward, adv, mask, valid):
    size = state.weights.shape[0]
    count, mean = _sources.moments(reward, source, group, status, size)
    own = _sources.of_rows(source, group)
    if adv.ndim == 2:
      adv = numerics.masked_mean(jnp.abs(adv), mask, axis=1)
    total = numerics.group_sum(jnp.abs(adv), own, size, valid)
    state = state._replace(
      count=_pushed(state.count, count),
      reward=_pushed(state.reward, count * mean),
      size=_pushed(state.size, total),
      steps=state.steps + 1,
    )
    rows = jnp.sum(state.count, axis=0)
    scores = jnp.where(rows > 0, score(state), state.score)
    due = (state.steps >= warmup) & (state.steps % every == 0)
    weights = jnp.where(due, weigh(scores, rows), state.weights)
    return state._replace(score=scores, weights=weights)

  return Method(init, apply, update)


def _pushed(values, new):
  return jnp.concatenate([values[1:], new[None, :]])
