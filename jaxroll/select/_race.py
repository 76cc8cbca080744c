"""Which prompts pass first, if each is tried until it passes?"""

import jax
import jax.numpy as jnp


def race(chance: jax.Array, key: jax.Array) -> jax.Array:
  """Scores whose order is that of the passes in rounds of independent trials.

  In each round every prompt that has not passed passes with its own
  probability. The round in which prompt i passes is geometric,

    round_i = floor(E_i / -log(1 - chance_i)),  E_i exponential,

  and within a round the order is uniform: the first `num` of it are a filter
  that is repeated until `num` prompts have passed.

  Args:
    chance: f32[N], in [0, 1]; below 1e-6 it counts as 1e-6.
    key: PRNG key; each id's draw depends on it and the id.

  Returns:
    f32[N], finite, <= 0; higher passes earlier; in (-1, 0] for a pass in the
    first round.

  Example:
    >>> race(jnp.array([1.0, 1e-6]), jax.random.key(0)).tolist()[0] > -1
    True
  """
  trials, order = jax.random.split(key)
  wait = jax.random.exponential(trials, chance.shape, jnp.float32)
  # log1p(-1) is -inf: a certain pass waits 0 rounds.
  rounds = jnp.floor(wait / -jnp.log1p(-jnp.clip(chance, 1e-6, 1.0)))
  return -rounds - jax.random.uniform(order, chance.shape, jnp.float32)
