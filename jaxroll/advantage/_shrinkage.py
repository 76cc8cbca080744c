r"""How far should a baseline follow a few rollouts, and how far a prediction?

Of k rollouts with rewards in {-1, +1} and mean m, and a prediction V of their
expectation made before, the mix of least expected squared error is

  b = w m + (1 - w) V,   w = D^2 / (D^2 + 1/k)
  D^2 = max(0, (m - V)^2 - 1/k)

with 1/k the largest variance of m. A prediction within noise is taken as it
is, w = 0; the further off it is, the more the rollouts count.

Paper: V0.5, 2026, arXiv:2603.10848.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics, posterior
from jaxroll.types import PromptStats


def shrinkage(
  reward: chex.Array,
  group: chex.Array,
  *,
  stats: PromptStats,
  num_groups: int,
  valid: chex.Array,
) -> chex.Array:
  """Reward minus a mix of its group's mean and what was predicted.

  `adv_i = (2 r_i - 1) - b`, b as in `shrink`

  Args:
    reward: f32[B] in [0, 1] where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    stats: PromptStats[P] before the step; its mean p predicts V = 2 p - 1.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read.

  Returns:
    f32[B] in [-2, 2], 0 where not valid. Tied groups do not give 0: their
    rewards differ from the prediction.

  Note:
    The paper predicts with a value network, here with the prompt's
    posterior. Its rewards are -1 and +1: those in [0, 1] are rescaled, so
    that the noise of the mean is 1/k. That the advantage is not divided by a
    standard deviation is derived here: the source does not state it.

  Example:
    >>> reward = jnp.array([1.0, 1.0, 0.0, 1.0])
    >>> group, valid = jnp.zeros(4, jnp.int32), jnp.ones(4, bool)
    >>> stats = posterior.init(1, prior=(2.0, 8.0))  # V = -0.6
    >>> adv = shrinkage(
    ...   reward, group, stats=stats, num_groups=1, valid=valid)
    >>> round(float(adv[0]), 4)  # 1 - b = 1 - 0.2727
    0.7273

  Reference:
    V0.5, 2026, arXiv:2603.10848.
  """
  chex.assert_rank([reward, group, valid], 1)
  chex.assert_equal_shape([reward, group, valid])
  chex.assert_shape(stats.alpha, (num_groups,))
  signed = jnp.where(valid, 2 * reward.astype(jnp.float32) - 1, 0.0)
  mean = numerics.group_mean(signed, group, num_groups, valid)
  count = numerics.group_count(group, num_groups, valid)
  baseline, _ = shrink(mean, 2 * posterior.mean(stats) - 1, count)
  return jnp.where(valid, signed - baseline[group], 0.0)


def shrink(
  mean: chex.Array, prior: chex.Array, k: chex.Array
) -> tuple[chex.Array, chex.Array]:
  """The mix of a mean and a prediction, and its expected squared error.

  `b = w m + (1 - w) V,  w = D^2 / (D^2 + 1/k),  error = D^2 / (k D^2 + 1)`

  Args:
    mean: m, f32[P] in [-1, 1], of k rewards in {-1, +1}.
    prior: V, f32[P] in [-1, 1].
    k: i32[P], rollouts; with none of them b = V.

  Returns:
    b f32[P] between m and V, error f32[P] in [0, 1/k).

  Example:
    >>> baseline, error = shrink(
    ...   jnp.array([0.5]), jnp.array([0.0]), jnp.array([4]))
    >>> float(baseline[0]), float(error[0])
    (0.0, 0.0)

  Reference:
    V0.5, 2026, arXiv:2603.10848.
  """
  n = k.astype(jnp.float32)
  gap = jnp.where(k > 0, mean - prior, 0.0)
  noise = numerics.safe_divide(jnp.ones_like(n), n)
  bias_sq = jnp.maximum(jnp.square(gap) - noise, 0.0)
  error = bias_sq / (n * bias_sq + 1)
  # w = k error, without 1/k where there are no rollouts.
  return prior + n * error * gap, error
