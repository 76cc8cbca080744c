"""How is a token corrected for a sampler that computes other numbers?

Sampler and trainer hold the same parameters but other kernels and precisions,
so the sampled tokens are slightly off-policy. Truncated importance sampling
reweights each token:

  weight_t = min(exp(old_logp_t - behaviour_logp_t), cap)

Source: Yao, Liu, Zhang, Dong, Shang & Gao 2025, "Your Efficient RL Framework
Secretly Brings You Off-Policy RL Training" (blog), fengyao.notion.site/
off-policy-rl.
"""

import chex

from jaxroll import types
from jaxroll.trust import _build


def token_weight(
  old_logp: chex.Array,
  behaviour_logp: chex.Array,
  mask: chex.Array,
  *,
  cap: float = 2.0,
) -> types.Trust:
  """Truncated importance weight of every token.

  `weight_t = min(exp(old_logp_t - behaviour_logp_t), cap)`

  Args:
    old_logp: f32[B, T], nats, the trainer's, before the update.
    behaviour_logp: f32[B, T], nats, the sampler's.
    mask: bool[B, T], trained tokens; the others are never read.
    cap: upper bound of the weight, >= 1; inf for none.

  Returns:
    Trust of f32[B, T] without bounds. The weight compares two fixed
    log-probs: it is constant over the inner epochs.

  Raises:
    ValueError: if `cap` is less than 1.

  Note:
    The exponent is cut off at 20, which only acts on a cap above e^20.

  Example:
    >>> import jax.numpy as jnp
    >>> old_logp, mask = jnp.array([[-1.0, -1.0]]), jnp.ones((1, 2), bool)
    >>> behaviour_logp = jnp.array([[-1.0, -3.0]])
    >>> token_weight(old_logp, behaviour_logp, mask).weight.tolist()
    [[1.0, 2.0]]

  Reference:
    Yao et al. 2025 (blog), token-level truncated importance sampling.
  """
  gap = _build.log_gap(old_logp, behaviour_logp, mask)
  weight = _build.truncated(gap, cap)
  return _build.build(old_logp, mask, weight=weight)
