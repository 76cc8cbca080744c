"""What is believed of a prompt while its step runs?

The posterior before the step and the step's tally, each reward counted once:

  alpha = stats.alpha + tally.success
  beta  = stats.beta + tally.count - tally.success
"""

import chex
import jax

from jaxroll import posterior
from jaxroll.types import PromptStats, Tally


def so_far(stats: PromptStats, tally: Tally) -> PromptStats:
  """The Beta posteriors with the evidence of the running step added.

  Args:
    stats: PromptStats[P] before the step.
    tally: Tally[P] of the step so far.

  Returns:
    PromptStats[P] whose alpha and beta are those of now; the other fields are
    still those before the step.

  Example:
    >>> import jax.numpy as jnp
    >>> tally = posterior.tally_add(
    ...   posterior.tally_init(1), jnp.array([1.0, 0.0, 1.0]),
    ...   jnp.zeros(3, jnp.int32), jnp.ones(3, bool))
    >>> now = so_far(posterior.init(1), tally)
    >>> float(now.alpha[0]), float(now.beta[0])
    (3.0, 2.0)
  """
  chex.assert_equal_shape([stats.alpha, tally.count, tally.success])
  return stats.replace(
    alpha=stats.alpha + tally.success,
    beta=stats.beta + tally.count.astype("float32") - tally.success,
  )


def rate(stats: PromptStats, tally: Tally) -> jax.Array:
  """The expected solve rate, the step's evidence included.

  Args:
    stats: PromptStats[P] before the step.
    tally: Tally[P] of the step so far.

  Returns:
    f32[P] in (0, 1).

  Example:
    >>> rate(posterior.init(2), posterior.tally_init(2)).tolist()
    [0.5, 0.5]
  """
  return posterior.mean(so_far(stats, tally))
