r"""Which of several right answers should be learned most? The unlikely ones.

With s_i the mean log-prob of a row's tokens under the policy before the
update, and eta_i = exp(s_i - mean s of the group) < 1 for a row that is less
likely than its group's average, a right row's advantage grows by

  A_i + min(max(lam (1 - eta_i), 0), kap A_i)

Paper: XRPO, 2025, arXiv:2510.06672.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics


def sharpen(
  adv: chex.Array,
  reward: chex.Array,
  group: chex.Array,
  mask: chex.Array,
  old_logp: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  lam: float = 1.0,
  kap: float = 0.5,
  correct: float = 0.5,
) -> chex.Array:
  """Raises the advantage of right rows that their policy found unlikely.

  `adv_i + min(max(lam (1 - eta_i), 0), kap adv_i)` where the reward is above
  `correct` and adv_i > 0

  Args:
    adv: f32[B] or f32[B, T], of an estimator.
    reward: f32[B], unread where not valid.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    mask: bool[B, T], tokens that count in a row's mean log-prob.
    old_logp: f32[B, T], nats; unread outside the mask.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read.
    lam: slope in the novelty, >= 0.
    kap: most relative growth, >= 0; 0 changes nothing.
    correct: reward above which a row is right.

  Returns:
    The shape of adv, f32, in [adv, (1 + kap) adv] where that is positive; 0
    where not valid. A group's mean is no longer 0.

  Raises:
    ValueError: if `lam` or `kap` is negative.

  Note:
    lam, kap and the threshold are derived here: the source does not state
    them. Rows without a trained token keep their advantage and leave their
    group's mean alone.

  Example:
    >>> adv, reward = jnp.array([1.0, 1.0, -1.0]), jnp.array([1.0, 1.0, 0.0])
    >>> logp = jnp.array([[-0.25], [-1.0], [-0.25]])
    >>> one_group, valid = jnp.zeros(3, jnp.int32), jnp.ones(3, bool)
    >>> sharpen(adv, reward, one_group, valid[:, None], logp, num_groups=1,
    ...         valid=valid, lam=4.0).tolist()
    [1.0, 1.5, -1.0]

  Reference:
    XRPO, 2025, arXiv:2510.06672.
  """
  if not (lam >= 0 and kap >= 0):
    raise ValueError(
      f"lam={lam}, kap={kap} must be >= 0: use 1.0 and 0.5, or kap=0 for no "
      "sharpening"
    )
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  chex.assert_equal_shape([mask, old_logp])
  chex.assert_equal_shape_prefix([adv, reward], 1)
  by_row = (...,) + (None,) * (adv.ndim - 1)
  adv = jnp.where(valid[by_row], adv, 0).astype(jnp.float32)

  scored = valid & jnp.any(mask, axis=1)
  score = numerics.masked_mean(old_logp, mask & valid[:, None], axis=1)
  mean = numerics.group_mean(score, group, num_groups, scored)
  # max(1 - eta, 0) is 1 - exp of what is negative: it cannot overflow.
  novelty = -jnp.expm1(jnp.minimum(score - mean[group], 0.0))
  right = scored & (jnp.where(valid, reward, 0) > correct)
  bonus = jnp.where(right, lam * novelty, 0.0)
  return adv + jnp.minimum(bonus[by_row], kap * jnp.maximum(adv, 0.0))
