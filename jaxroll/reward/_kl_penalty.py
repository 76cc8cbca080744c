"""How is the policy held near a reference through its reward?

  r'_i = r_i - coefficient sum_t k(logp_it, ref_logp_it)

with k an estimator of the KL divergence from the reference. With
k1 = logp - ref_logp the expected penalty is the divergence of whole rows, and
its policy gradient is exact; the same k1 as a loss would have no expected
gradient at all.

Paper: Ziegler et al. 2019, "Fine-Tuning Language Models from Human
Preferences", arXiv:1909.08593. Estimators: Schulman 2020, "Approximating KL
Divergence", http://joschu.net/blog/kl-approx.html.
"""

from collections.abc import Callable

import chex
import jax.numpy as jnp

from jaxroll import numerics


def kl_penalty(
  reward: chex.Array,
  old_logp: chex.Array,
  ref_logp: chex.Array,
  mask: chex.Array,
  *,
  coefficient: float = 0.05,
  estimator: Callable = numerics.k1,
) -> chex.Array:
  """Reward minus a multiple of the row's divergence from the reference.

  `r'_i = r_i - coefficient sum_t k(old_logp_it, ref_logp_it)`

  Args:
    reward: f32[B].
    old_logp: f32[B, T], nats, of the policy that is about to be updated.
    ref_logp: f32[B, T], nats, of the reference.
    mask: bool[B, T], trained tokens; the others are never read.
    coefficient: reward units a nat, >= 0.
    estimator: `numerics.k1`, `k2` or `k3`, a function (logp, ref_logp) of
      arrays of one shape.

  Returns:
    f32[B]; the reward itself where no token of the row is masked True.

  Raises:
    ValueError: if `coefficient` is negative.

  Note:
    The paper estimates the divergence at the sampling policy, `old_logp`
    here; it is a constant of the update. Rewards count from a row's sum over
    tokens, not its mean: longer rows pay more.

  Example:
    >>> reward, mask = jnp.ones(1), jnp.ones((1, 2), bool)
    >>> logp, ref = jnp.full((1, 2), -1.0), jnp.full((1, 2), -2.0)
    >>> kl_penalty(reward, logp, ref, mask, coefficient=0.25).tolist()
    [0.5]

  Reference:
    Ziegler et al. 2019, arXiv:1909.08593, eq. 2.
  """
  if coefficient < 0:
    raise ValueError(
      f"coefficient={coefficient} must be >= 0: a negative one pays the "
      "policy for leaving the reference; use 0 for no penalty"
    )
  chex.assert_rank(reward, 1)
  chex.assert_equal_shape([old_logp, ref_logp, mask])
  # Masked before the estimator: its exp turns garbage into NaN gradients.
  old_logp = jnp.where(mask, old_logp, 0).astype(jnp.float32)
  ref_logp = jnp.where(mask, ref_logp, 0).astype(jnp.float32)
  kl = numerics.masked_sum(estimator(old_logp, ref_logp), mask, axis=1)
  return reward.astype(jnp.float32) - coefficient * kl
