"""How do several trust functions act together?

anchor = the first one's,  low = max,  high = min,  weight = product
"""

import functools
from collections.abc import Sequence

import jax.numpy as jnp

from jaxroll import types


def merge(trusts: Sequence[types.Trust]) -> types.Trust:
  """One Trust of a chain: tightest bounds, product of weights.

  Every `low` is at most 1 and every `high` at least 1, so the merged bounds
  never cross.

  Args:
    trusts: at least one Trust of f32[B, T].

  Returns:
    Trust of f32[B, T].

  Raises:
    ValueError: if there is none.

  Example:
    >>> old_logp, mask = jnp.full((1, 1), -1.0), jnp.ones((1, 1), bool)
    >>> from jaxroll import trust
    >>> merged = merge((trust.unbounded(old_logp, mask),
    ...                 trust.clip(old_logp, mask, low=0.25, high=0.5)))
    >>> float(merged.low[0, 0]), float(merged.high[0, 0])
    (0.75, 1.5)
  """
  if not trusts:
    raise ValueError(
      "trust chain is empty: name at least one function, trust.unbounded for "
      "a plain policy gradient"
    )
  return types.Trust(
    anchor=trusts[0].anchor,
    low=functools.reduce(jnp.maximum, [t.low for t in trusts]),
    high=functools.reduce(jnp.minimum, [t.high for t in trusts]),
    weight=functools.reduce(jnp.multiply, [t.weight for t in trusts]),
  )
