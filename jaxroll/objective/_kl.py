"""How is the policy held near a reference through its loss?

  loss_t = k(logp_t, ref_logp_t)

An estimator's VALUE may be unbiased while its GRADIENT is that of something
else. On fresh rows the expected gradient is, for

  k1 = logp - ref_logp:                 zero
  k2 = (logp - ref_logp)^2 / 2:         that of KL(policy || reference)
  k3 = exp(-k1) - 1 + k1:               that of KL(reference || policy)

Papers: Shao et al. 2024, arXiv:2402.03300 (k3 in GRPO's loss); Schulman 2020,
"Approximating KL Divergence", http://joschu.net/blog/kl-approx.html; Tang &
Munos 2025, "On a few pitfalls in KL divergence gradient estimation for RL",
arXiv:2506.09477.
"""

from collections.abc import Callable

import chex

from jaxroll import numerics
from jaxroll.objective import _token


def kl(
  logp: chex.Array,
  ref_logp: chex.Array,
  mask: chex.Array,
  *,
  estimator: Callable = numerics.k3,
) -> tuple[chex.Array, dict[str, chex.Array]]:
  """Divergence from the reference, estimated at the sampled token.

  `loss_t = k(logp_t, ref_logp_t)`

  Args:
    logp: f32[B, T], nats, of the learner, with gradient.
    ref_logp: f32[B, T], nats, of the reference.
    mask: bool[B, T], trained tokens.
    estimator: `numerics.k3` (GRPO) or `numerics.k2`, a function (logp,
      ref_logp) of arrays of one shape, 0 where they are equal.

  Returns:
    loss: f32[B, T] >= 0, exactly 0 where the mask is False. aux: empty.

  Raises:
    ValueError: if `estimator` is `numerics.k1`.

  Example:
    >>> import jax.numpy as jnp
    >>> logp, ref_logp = jnp.full((1, 1), -1.0), jnp.full((1, 1), -2.0)
    >>> loss, _ = kl(logp, ref_logp, jnp.ones((1, 1), bool),
    ...              estimator=numerics.k2)
    >>> loss.tolist()
    [[0.5]]

  Reference:
    Shao et al. 2024, arXiv:2402.03300, eq. 4.
  """
  if estimator is numerics.k1:
    raise ValueError(
      "estimator=numerics.k1 has an expected gradient of zero as a loss: use "
      "numerics.k2 or numerics.k3, or k1 in reward.kl_penalty"
    )
  # Masked before the estimator: its exp turns garbage into NaN gradients.
  # It is 0 where both agree, so it is 0 outside the mask.
  loss = estimator(_token.masked(logp, mask), _token.constant(ref_logp, mask))
  return loss, {}
