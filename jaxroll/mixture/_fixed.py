"""What if every source had a fixed share of each step, equal by default?

  weights_k = w_k / sum_k w

Equal shares of the difficulty grades, uniform inside each, are WebGym's
sampler: over-weighting hard tasks hurt there. A source whose prompts cannot be
selected gives its places to the others.

WebGym (2026), arXiv:2601.02439.
"""

from jaxroll.mixture import _sources
from jaxroll.types import Method


def fixed(*, weights: tuple | None = None) -> Method:
  """Fixed shares of the sources.

  Args:
    weights: one entry a source, >= 0, not all 0; None makes them equal.

  Returns:
    types.Method whose state is the weights f32[K].

  Raises:
    ValueError: weights out of range, or not one a source.

  Example:
    >>> from jaxroll.types import Sizes
    >>> fixed().init(Sizes(9, 2, 8, 5, 6, num_sources=4), key=None).tolist()
    [0.25, 0.25, 0.25, 0.25]

  Note:
    A quota is made of whole prompts at each step by itself: a source whose
    weight times the step's prompts is below 1 may never be drawn.

  Reference:
    WebGym, 2026, arXiv:2601.02439, for equal shares of difficulty grades.
  """
  _sources.check_weights(weights)

  def init(sizes, *, key):
    del key
    return _sources.target(weights, sizes.num_sources)

  def apply(state, *, step, key):
    del step, key
    return state, state

  def update(state):
    return state

  return Method(init, apply, update)
