"""Should prompts of a target difficulty count for more?

  w_i = exp(-(p_i - target)^2 / (2 width^2)), scaled to mean 1
  adv_i <- w_i adv_i

with p_i the pass rate of i's group in this step.

Paper: DataFlex-RL, 2026, arXiv:2609.06107.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.advantage._mean_one import mean_one


def bell_weight(
  adv: chex.Array,
  reward: chex.Array,
  group: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  target: float = 0.5,
  width: float = 0.2,
) -> chex.Array:
  """Advantages times a bell around a target pass rate, a transform.

  `adv_i <- adv_i w_i / mean(w),  w_i = exp(-((p_i - target) / width)^2 / 2)`

  Args:
    adv: f32[B] or f32[B, T]; unread where not valid.
    reward: f32[B], in [0, 1] where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    valid: bool[B], rows with an advantage.
    target: pass rate of the highest weight, in [0, 1].
    width: standard deviation of the bell, > 0.

  Returns:
    f32 of the shape of `adv`, exactly 0 where not valid or where `adv` is 0.

  Raises:
    ValueError: where a number is out of its range.

  Note:
    The mean of w is over the valid rows, those of advantage 0 included. The
    width and the scale are derived here: the source does not state them.

  Example:
    >>> reward = jnp.array([1.0, 0.0, 1.0, 1.0])
    >>> group, valid = jnp.array([0, 0, 1, 1]), jnp.ones(4, bool)
    >>> adv = bell_weight(jnp.ones(4), reward, group, num_groups=2,
    ...                   valid=valid, width=0.25)
    >>> [round(x, 4) for x in adv.tolist()]
    [1.7616, 1.7616, 0.2384, 0.2384]

  Reference:
    DataFlex-RL 2026, arXiv:2609.06107 (re-weighting by difficulty).
  """
  if not 0 <= target <= 1:
    raise ValueError(f"target={target} must be in [0, 1]: it is a pass rate")
  if not width > 0:
    raise ValueError(f"width={width} must be > 0: raise it for even weights")
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  by_row = (-1,) + (1,) * (adv.ndim - 1)
  use = jnp.broadcast_to(valid.reshape(by_row), adv.shape)
  adv = jnp.where(use, adv, 0).astype(jnp.float32)
  rate = numerics.group_mean(reward, group, num_groups, valid)[group]
  score = -jnp.square((rate - target) / width) / 2
  return adv * mean_one(score, valid).reshape(by_row)
