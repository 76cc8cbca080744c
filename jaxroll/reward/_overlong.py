"""How is a row told that it is getting too long?

A row that hits the length limit is cut off, which is a cliff. DAPO's soft
overlong punishment puts a ramp before it, over the last `buffer` tokens:

  r'_i = r_i - penalty clip((length_i - (limit - buffer)) / buffer, 0, 1)

Paper: Yu et al. 2025, "DAPO: An Open-Source LLM Reinforcement Learning System
at Scale", arXiv:2503.14476.
"""

import chex
import jax.numpy as jnp


def overlong(
  reward: chex.Array,
  length: chex.Array,
  *,
  limit: int,
  buffer: int,
  penalty: float = 1.0,
) -> chex.Array:
  """Reward minus a penalty that grows over the last tokens before the limit.

  `r'_i = r_i - penalty clip((length_i - (limit - buffer)) / buffer, 0, 1)`

  Args:
    reward: f32[B].
    length: i32[B], tokens after the context (tokens, not characters).
    limit: tokens at which the penalty is whole, >= 1; the paper uses 20480.
    buffer: tokens over which it grows, 1 <= buffer <= limit; the paper uses
      4096.
    penalty: reward units at the limit, >= 0.

  Returns:
    f32[B]; the reward itself up to `limit - buffer` tokens, `penalty` less
    from `limit` tokens on.

  Raises:
    ValueError: if a hyper-parameter is out of its range.

  Note:
    `limit` and `buffer` have no defaults: the paper's values would never act
    on shorter responses. Bind them with `functools.partial`.

  Example:
    >>> reward, length = jnp.ones(4), jnp.array([6, 8, 9, 10])
    >>> overlong(reward, length, limit=10, buffer=4).tolist()
    [1.0, 0.5, 0.25, 0.0]

  Reference:
    Yu et al. 2025, arXiv:2503.14476, eq. 13.
  """
  if not 1 <= buffer <= limit:
    raise ValueError(
      f"buffer={buffer} must lie in [1, limit={limit}]: it is the number of "
      "tokens before the limit over which the penalty grows"
    )
  if penalty < 0:
    raise ValueError(
      f"penalty={penalty} must be >= 0: it is subtracted from the reward"
    )
  chex.assert_rank([reward, length], 1)
  chex.assert_equal_shape([reward, length])
  over = (length - (limit - buffer)).astype(jnp.float32) / buffer
  return reward.astype(jnp.float32) - penalty * jnp.clip(over, 0.0, 1.0)
