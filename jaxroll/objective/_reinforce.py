"""Which way do log-probs move if every row is fresh?

  loss_t = -sg(w_t A_t) logp_t

whose gradient is the policy gradient -w A grad logp.

Paper: Williams 1992, "Simple Statistical Gradient-Following Algorithms for
Connectionist Reinforcement Learning", Machine Learning 8,
doi:10.1007/BF00992696.
"""

import chex

from jaxroll.objective import _token


def reinforce(
  logp: chex.Array,
  adv: chex.Array,
  weight: chex.Array,
  mask: chex.Array,
) -> tuple[chex.Array, dict[str, chex.Array]]:
  """Policy gradient loss.

  `loss_t = -sg(weight_t adv_t) logp_t`

  Args:
    logp: f32[B, T], nats, of the learner, with gradient.
    adv: f32[B] or f32[B, T].
    weight: f32[B, T], importance weight, >= 0.
    mask: bool[B, T], trained tokens.

  Returns:
    loss: f32[B, T], exactly 0 where the mask is False. aux: empty.

  Example:
    >>> import jax.numpy as jnp
    >>> one = jnp.ones((1, 2))
    >>> loss, _ = reinforce(-2.0 * one, jnp.array([3.0]), one, one > 0)
    >>> loss.tolist()
    [[6.0, 6.0]]

  Reference:
    Williams 1992, Machine Learning 8, doi:10.1007/BF00992696; the advantage
    stands for the reinforcement less its baseline.
  """
  weighted = _token.constant(weight, mask) * _token.constant(adv, mask)
  return -weighted * _token.masked(logp, mask), {}
