r"""When is the next rollout worth its price, given what was predicted?

Rewards of a prompt in {-1, +1} have mean m after k rollouts; V in [-1, 1] was
predicted before. The error of the best mix of both is D^2 / (k D^2 + 1), with

  D^2 = max(0, (m - V)^2 - 1/k)

the squared error of V beyond what noise explains. One more rollout is drawn
where it lowers that error by more than its price c:

  D^2 / (k D^2 + 1) - D^2 / ((k + 1) D^2 + 1) > c

So rollouts are bought only where the prediction is wrong. The mix itself is
`advantage.shrinkage`.

V0.5 (2026), arXiv:2603.10848.
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll import apportion, numerics, posterior
from jaxroll.types import Allocator, PromptStats, Tally


def v05(
  *, k_init: int = 4, k_max: int = 16, c: float = 0.0039, stride: int = 1
) -> Allocator:
  """First rollouts for all, then more where the prediction was wrong.

  Args:
    k_init: first rollouts of every prompt, >= 1; the paper finds 1 and 2 too
      coarse.
    k_max: most rollouts of a prompt, >= k_init.
    c: price of a rollout in squared error, > 0; 0.0039 stops the most
      hopeless prediction at 16 rollouts.
    stride: most rollouts of a prompt in one of the further rounds, >= 1; the
      paper draws them one by one.

  Returns:
    An `Allocator` of 1 + ceil((k_max - k_init) / stride) rounds, fewer where
    the budget ends first: the first of P k_init rows, the others of equal
    shares of what is left. Where more is wanted than a round has rows, the
    largest fall of the error goes first; what is not wanted is saved.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover k_init.

  Example:
    >>> v05(stride=4).rounds(64, 8)
    (32, 11, 11, 10)

  Note:
    V is 2 p - 1 with p the mean of the posterior before the step, in place of
    the paper's value network. Its rollouts are drawn without a limit on the
    batch; the shared rounds, and strides above 1, are derived here.

  Reference:
    V0.5, 2026, arXiv:2603.10848.
  """
  if not 1 <= k_init <= k_max:
    raise ValueError(
      f"v05: k_init={k_init}, k_max={k_max} must have 1 <= k_init <= k_max"
    )
  if not c > 0:
    raise ValueError(f"v05: c={c} must be > 0: rollouts have a price")
  if stride < 1:
    raise ValueError(f"v05: stride={stride} must be >= 1")

  def rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
    first = k_init * num_prompts
    if budget < first:
      raise ValueError(
        f"v05: budget={budget} < k_init*P={k_init}*{num_prompts}: raise the "
        "budget or lower k_init"
      )
    left = min(budget, k_max * num_prompts) - first
    num = min(-(-(k_max - k_init) // stride), left)
    more = [left // num + (i < left % num) for i in range(num)] if num else []
    return (first, *more)

  def counts(
    stats: PromptStats, tally: Tally, counts: jax.Array, *, round, rows, key
  ) -> jax.Array:
    del key
    chex.assert_equal_shape([stats.alpha, tally.count, counts])
    k = tally.count
    mean = 2 * numerics.safe_divide(tally.success, k) - 1
    bias_sq = prior_bias_sq(mean, 2 * posterior.mean(stats) - 1, k)

    def worth(drawn):
      fall = error_fall(bias_sq, k + drawn)
      return jnp.where(fall > c, fall, -jnp.inf)

    none = jnp.zeros_like(counts)
    gains = apportion.gain_table(worth, none, stride, cap=k_max - counts)
    more = apportion.greedy(gains, rows, where=counts > 0)
    return jnp.where(round == 0, k_init, more)

  return Allocator(rounds=rounds, counts=counts)


def prior_bias_sq(mean: jax.Array, prior: jax.Array, k: jax.Array) -> jax.Array:
  """Squared error of a prediction beyond what noise explains.

  `D^2 = max(0, (m - V)^2 - 1/k)`

  Args:
    mean: m, f32[P] in [-1, 1], of k rewards in {-1, +1}.
    prior: V, f32[P] in [-1, 1].
    k: i32[P], rollouts.

  Returns:
    f32[P] >= 0; 0 where the prediction is accepted, and where k = 0.

  Example:
    >>> float(prior_bias_sq(jnp.array(0.5), jnp.array(-0.5), jnp.array(4)))
    0.75
  """
  noise = numerics.safe_divide(jnp.ones_like(mean), k)
  excess = jnp.maximum(jnp.square(mean - prior) - noise, 0.0)
  return jnp.where(k > 0, excess, 0.0)


def error_fall(bias_sq: jax.Array, k: jax.Array) -> jax.Array:
  """By how much one more rollout lowers the error of the best mix.

  `D^2/(k D^2 + 1) - D^2/((k + 1) D^2 + 1)
  = D^4 / ((k D^2 + 1) ((k + 1) D^2 + 1))`

  Args:
    bias_sq: D^2, f32[P] >= 0.
    k: i32[P], rollouts so far.

  Returns:
    f32[P] >= 0, falling in k.

  Example:
    >>> round(float(error_fall(jnp.array(1.0), jnp.array(3))), 4)
    0.05
  """
  k = k.astype(jnp.float32)
  ahead = (k * bias_sq + 1) * ((k + 1) * bias_sq + 1)
  return jnp.square(bias_sq) / ahead
