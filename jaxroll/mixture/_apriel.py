"""What if filters and slow sources bend the mix that is trained on?

  tau_k = w_k / sum w,  a_k = clip(tau_k / (c_k / C), low, high)
  weights_k = w_k a_k / sum w a   once C >= warmup, w_k / sum w before

c_k counts the completed rollouts of source k, C all of them: a source that is
behind its target is drawn more often than its target says.

Apriel-Reasoner (2026), arXiv:2604.02007.
"""

import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.mixture import _sources
from jaxroll.types import Method


def corrected(weights, counts, *, low=0.1, high=10.0, warmup=50):
  """Weights corrected by what was completed.

  Args:
    weights: f32[K], target, >= 0, not all 0.
    counts: f32[K], completed rollouts.
    low, high: bounds of the correction; `high` where nothing was completed.
    warmup: completed rollouts from which on weights are corrected.

  Returns:
    f32[K] that sums to 1.

  Example:
    >>> weights = corrected(jnp.array([0.5, 0.5]), jnp.array([60.0, 0.0]))
    >>> [round(float(x), 6) for x in weights]
    [0.047619, 0.952381]
  """
  total = jnp.sum(counts)
  target = weights / jnp.sum(weights)
  actual = numerics.safe_divide(counts, total)
  ratio = jnp.where(actual > 0, numerics.safe_divide(target, actual), high)
  raw = target * jnp.where(total < warmup, 1.0, jnp.clip(ratio, low, high))
  return raw / jnp.sum(raw)


def apriel(
  *,
  weights: tuple | None = None,
  low: float = 0.1,
  high: float = 10.0,
  warmup: int = 50,
  decay: float = 1.0,
) -> Method:
  """Completion-corrected sampling of sources.

  Args:
    weights: target, one entry a source, >= 0, not all 0; None: equal ones. The
      paper's are .35 maths, .25 code, .15 logic, .15 instructions, .1 tools.
    low, high: bounds of the correction, 0 < low <= 1 <= high.
    warmup: completed rollouts before the first correction, >= 0.
    decay: kept of the counts at every step, in [0, 1]; 1 as in the paper.

  Returns:
    types.Method whose state is the target and the counts, f32[2, K].

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> apriel(warmup=10).apply.__name__
    'apply'

  Note:
    A completed rollout is one that is valid when the step ends: scored and
    not filtered, which is where the mix that is trained on drifts.

  Reference:
    Apriel-Reasoner, 2026, arXiv:2604.02007.
  """
  _sources.check_weights(weights)
  if not (0 < low <= 1 <= high and warmup >= 0 and 0 <= decay <= 1):
    raise ValueError(
      f"apriel: low={low}, high={high}, warmup={warmup}, decay={decay}: need "
      "0 < low <= 1 <= high, warmup >= 0 and decay in [0, 1]"
    )

  def init(sizes, *, key):
    del key
    target = _sources.target(weights, sizes.num_sources)
    return jnp.stack([target, jnp.zeros_like(target)])

  def apply(state, *, step, key):
    del step, key
    target, counts = state
    bounds = {"low": low, "high": high, "warmup": warmup}
    return corrected(target, counts, **bounds), state

  def update(state, source, group, valid):
    target, counts = state
    own = _sources.of_rows(source, group)
    new = numerics.group_count(own, counts.shape[0], valid)
    counts = decay * counts + new.astype(jnp.float32)
    return jnp.stack([target, counts])

  return Method(init, apply, update)
