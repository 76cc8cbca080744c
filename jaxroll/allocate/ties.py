"""Which of several equal prompts comes first?

A function `(key, num_prompts) -> f32[P]`, larger first; what is still equal
is taken in order of its place.
"""

import jax
import jax.numpy as jnp


def index_order(key: jax.Array, num_prompts: int) -> jax.Array:
  """The lower place first; draws nothing.

  Args:
    key: unused.
    num_prompts: P.

  Returns:
    f32[P], all zero.

  Example:
    >>> index_order(jax.random.key(0), 3).tolist()
    [0.0, 0.0, 0.0]
  """
  del key
  return jnp.zeros(num_prompts, jnp.float32)


def random_order(key: jax.Array, num_prompts: int) -> jax.Array:
  """A uniformly drawn order.

  Args:
    key: PRNG key.
    num_prompts: P.

  Returns:
    f32[P] in [0, 1).

  Example:
    >>> random_order(jax.random.key(0), 3).shape
    (3,)
  """
  return jax.random.uniform(key, (num_prompts,), jnp.float32)
