"""How many rows of a group without contrast are worth an update?

All rows of a group with equal rewards say the same, so a few of them, drawn at
random, are enough where such groups have an advantage at all, as under
`advantage.posterior_baseline`:

  n_kept = min(n, rows of the group)  if min r = max r,  else all

AERO (2026), arXiv:2602.14338.
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.keep._rows import place


def thin_flat(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  key: chex.Array,
  n: int = 4,
) -> chex.Array:
  """Keeps at most n rows of groups whose valid rewards are all equal.

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read or kept.
    key: PRNG key; draws the rows that stay.
    n: rows kept of a group, >= 0.

  Returns:
    bool[B]; all valid rows of the other groups.

  Raises:
    ValueError: if `n` is negative.

  Note:
    Belongs in `keep_loss`: the posterior mean of a group counts all of its
    rows, also those that are not trained.

  Example:
    >>> reward = jnp.array([0.0, 0.0, 0.0, 1.0, 0.0])
    >>> group, valid = jnp.array([0, 0, 0, 1, 1]), jnp.ones(5, bool)
    >>> kept = thin_flat(reward, group, num_groups=2, valid=valid, n=2,
    ...                  key=jax.random.key(0))
    >>> int(kept[:3].sum()), kept[3:].tolist()
    (2, [True, True])

  Reference:
    AERO 2026, arXiv:2602.14338 (Bayesian branch).
  """
  if n < 0:
    raise ValueError(f"n={n} must be >= 0: 0 drops groups without contrast")
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  reward = jnp.where(valid, reward, 0)
  tied = numerics.group_tied(reward, group, num_groups, valid)
  drawn = jax.random.uniform(key, reward.shape, jnp.float32)
  first = place(group, num_groups, valid, drawn) < n
  return valid & (first | ~tied[group])
