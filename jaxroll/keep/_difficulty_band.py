"""Is a prompt neither too easy nor too hard for the policy?

  keep_i  iff  low <= pass rate of the group <= high

The pass rate is the group's mean reward of this step. The band (0, 1) is read
as an open one: then only groups without any contrast leave.

Paper: DataFlex-RL, 2026, arXiv:2609.06107.
"""

import chex

from jaxroll import numerics


def band(rate: chex.Array, low: float, high: float) -> chex.Array:
  """Whether a pass rate lies in a band, closed unless it is (0, 1).

  Args:
    rate: f32, any shape, pass rates in [0, 1].
    low, high: bounds.

  Returns:
    bool of the same shape.

  Example:
    >>> import jax.numpy as jnp
    >>> band(jnp.array([0.0, 0.125, 0.5, 1.0]), 0, 1).tolist()
    [False, True, True, False]
  """
  if (low, high) == (0, 1):
    return (0 < rate) & (rate < 1)
  return (low <= rate) & (rate <= high)


def difficulty_band(
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  low: float = 0.2,
  high: float = 0.8,
) -> chex.Array:
  """Keeps the rows of groups whose pass rate lies in a band.

  `keep_i = low <= mean(r of the group) <= high`, strict for the band (0, 1)

  Args:
    reward: f32[B], in [0, 1] where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read or kept.
    low, high: the band, 0 <= low <= high <= 1.

  Returns:
    bool[B].

  Raises:
    ValueError: unless 0 <= low <= high <= 1.

  Note:
    The paper masks the gradient after the advantages are made, so it belongs
    in `keep_loss`. With a baseline by group nothing differs in `keep`.

  Example:
    >>> import jax.numpy as jnp
    >>> reward = jnp.array([1.0, 0.0, 1.0, 1.0])
    >>> group, valid = jnp.array([0, 0, 1, 1]), jnp.ones(4, bool)
    >>> difficulty_band(reward, group, num_groups=2, valid=valid).tolist()
    [True, True, False, False]

  Reference:
    DataFlex-RL 2026, arXiv:2609.06107 (difficulty band).
  """
  if not 0 <= low <= high <= 1:
    raise ValueError(
      f"low={low}, high={high} must satisfy 0 <= low <= high <= 1: they are "
      "pass rates"
    )
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  rate = numerics.group_mean(reward, group, num_groups, valid)
  return valid & band(rate, low, high)[group]
