"""How is a whole row corrected for a sampler that computes other numbers?

A token-level correction ignores that the prefix, too, came from the sampler.
The row's own importance ratio does not:

  weight = min(exp(sum_t (old_logp_t - behaviour_logp_t)), cap)

Sources: Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You
Off-Policy RL Training" (blog); Liu et al. 2025, "When Speed Kills Stability:
Demystifying RL Collapse from the Training-Inference Mismatch" (blog), which
compares the two levels.
"""

import chex

from jaxroll import numerics, types
from jaxroll.trust import _build


def sequence_weight(
  old_logp: chex.Array,
  behaviour_logp: chex.Array,
  mask: chex.Array,
  *,
  cap: float = 2.0,
) -> types.Trust:
  """Truncated importance weight of every row, given to each of its tokens.

  `weight = min(exp(sum_t (old_logp_t - behaviour_logp_t)), cap)`

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
    The exponent is cut off at 20, which only acts on a cap above e^20. The
    sum runs over trained tokens: given and environment tokens have no ratio.

  Example:
    >>> import jax.numpy as jnp
    >>> old_logp, mask = jnp.array([[-1.5, -1.0]]), jnp.ones((1, 2), bool)
    >>> behaviour_logp = jnp.array([[-1.0, -1.5]])
    >>> sequence_weight(old_logp, behaviour_logp, mask).weight.tolist()
    [[1.0, 1.0]]

  Reference:
    Liu et al. 2025 (blog), sequence-level truncated importance sampling.
  """
  gap = _build.log_gap(old_logp, behaviour_logp, mask)
  row = numerics.masked_sum(gap, mask, axis=1)
  weight = _build.truncated(row, cap)
  return _build.build(old_logp, mask, weight=weight[:, None])
