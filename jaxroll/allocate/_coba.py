r"""Should a policy be trained on what it can or on what it cannot do yet?

The value of prompt i is a Beta density at its solve rate, whose mode follows
the global failure rate F: while most fails, easy prompts are worth most, later
the hard ones. With tau the rollouts after which a prompt saturates,

  V_i    = p_i^(a-1) (1 - p_i)^(b-1) / B(a, b),   (a, b) = shape(F)
  J_i(n) = V_i (1 - exp(-n / tau)),   n = argmax sum_i J_i(n_i)

under low <= n_i <= high and a fixed total. J is concave: the rollouts are
handed out one by one, each to the prompt that gains most.

CoBA-RL (2026), arXiv:2602.03048.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
from jax.scipy.special import betaln

from jaxroll import apportion, numerics, posterior
from jaxroll.allocate import beliefs
from jaxroll.types import Allocator, PromptStats, Tally

# Solve rates are cut off here, so that no value is 0 or infinite.
EDGE = 1e-3


def beta_shape(failure: jax.Array, kappa: float) -> tuple[jax.Array, jax.Array]:
  """A density whose mode is at p = F.

  `a = 1 + kappa F,  b = 1 + kappa (1 - F)`

  Args:
    failure: F, f32[] in [0, 1].
    kappa: how narrow it is, >= 0; 0 makes all prompts equal.

  Returns:
    (a, b), f32[] each, >= 1.

  Example:
    >>> a, b = beta_shape(0.75, 4.0)
    >>> float(a), float(b)
    (4.0, 2.0)
  """
  failure = jnp.asarray(failure, jnp.float32)
  return 1 + kappa * failure, 1 + kappa * (1 - failure)


def mean_failure(stats: PromptStats, where: jax.Array) -> jax.Array:
  """The failure rate of a batch: mean over its prompts of beta / (alpha+beta).

  Every prompt counts once, however many rollouts it was given.

  Args:
    stats: PromptStats[P].
    where: bool[P], prompts that count.

  Returns:
    f32[] in (0, 1); 1/2 where no prompt counts.

  Example:
    >>> stats = posterior.init(2, prior=(1.0, 3.0))
    >>> float(mean_failure(stats, jnp.ones(2, bool)))
    0.75
  """
  failed = numerics.masked_mean(1 - posterior.mean(stats), where)
  return jnp.where(jnp.any(where), failed, 0.5)


def coba(
  *,
  low: int = 2,
  high: int = 128,
  tau: float = 8.0,
  kappa: float = 4.0,
  shape: Callable = beta_shape,
  failure: Callable = mean_failure,
) -> Allocator:
  """Rollouts by a Beta-shaped value of the solve rate.

  The first round gives every prompt `low` rollouts, the second hands out the
  rest at the solve rates that they have left the posteriors with.

  Args:
    low: least rollouts of a prompt, >= 1.
    high: most rollouts of a prompt, > low.
    tau: rollouts after which a prompt's value has saturated to 1 - 1/e, > 0;
      the paper's loss of returns at half the mean group.
    kappa: given to `shape`, >= 0: how much the solve rate matters.
    shape: (F f32[], kappa) -> (a, b) f32[] each, the density.
    failure: (PromptStats[P], bool[P]) -> F f32[].

  Returns:
    An `Allocator` of two rounds that spends min(budget, P high) rows.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover low.

  Example:
    >>> coba(low=2, high=16).rounds(64, 4)
    (8, 56)

  Note:
    The public text names the density, its dependence on the global failure
    rate and its moving average, the saturation and the heap; the maps
    F -> (a, b) and n -> J(n), and the defaults of low, tau and kappa, are
    derived here. The paper's F is a moving average over steps of the batch's
    mean failure rate. An allocator has no memory: F is the mean failure rate of
    the step's prompts by their posteriors and the first round, which reach as
    far back as `posterior.observe` remembers each of them.

  Reference:
    CoBA-RL, 2026, arXiv:2602.03048.
  """
  if not 1 <= low < high:
    raise ValueError(f"coba: low={low}, high={high} must have 1 <= low < high")
  if not tau > 0:
    raise ValueError(f"coba: tau={tau} must be > 0")
  if not kappa >= 0:
    raise ValueError(f"coba: kappa={kappa} must be >= 0")

  def rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
    first = low * num_prompts
    if budget < first:
      raise ValueError(
        f"coba: budget={budget} < low*P={low}*{num_prompts}: raise the budget "
        "or lower low"
      )
    more = min(budget, high * num_prompts) - first
    return (first, more) if more else (first,)

  def counts(
    stats: PromptStats, tally: Tally, counts: jax.Array, *, round, rows, key
  ) -> jax.Array:
    del key
    chex.assert_equal_shape([stats.alpha, tally.count, counts])
    now = beliefs.so_far(stats, tally)
    there = counts > 0  # Empty prompts were given nothing in the first round.
    a, b = shape(failure(now, there), kappa)
    worth = value(posterior.mean(now), a, b)
    more = add(worth, there, rows, low, high, tau)
    return jnp.where(round == 0, low, more)

  return Allocator(rounds=rounds, counts=counts)


def value(rate: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
  """The Beta(a, b) density at the solve rate: what a prompt is worth.

  Args:
    rate: f32[P] in [0, 1]; cut off at `EDGE` from 0 and 1.
    a, b: f32[] > 0.

  Returns:
    f32[P] > 0.

  Example:
    >>> round(float(value(jnp.array([0.5]), 2.0, 2.0)[0]), 4)
    1.5
  """
  rate = jnp.clip(rate.astype(jnp.float32), EDGE, 1 - EDGE)
  log_density = (a - 1) * jnp.log(rate) + (b - 1) * jnp.log1p(-rate)
  return jnp.exp(log_density - betaln(a, b))


def add(
  worth: jax.Array, where: jax.Array, budget, low: int, high: int, tau: float
) -> jax.Array:
  """Rollouts beyond `low`, one by one to the largest growth of J.

  The rollout after n gains `V (exp(-n / tau) - exp(-(n + 1) / tau))`.

  Args:
    worth: V, f32[P] > 0.
    where: bool[P], prompts that may get rollouts.
    budget: rollouts to give, may be traced.
    low, high, tau: see `coba`.

  Returns:
    i32[P] in [0, high - low]; of equal gains the lower index goes first.

  Example:
    >>> everyone = jnp.ones(2, bool)
    >>> add(jnp.array([2.0, 1.0]), everyone, 6, 1, 8, 4.0).tolist()
    [4, 2]
  """
  n = jnp.arange(low, high, dtype=jnp.float32)
  growth = jnp.exp(-n / tau) * -jnp.expm1(-1 / jnp.float32(tau))
  gains = worth[:, None] * growth[None, :]
  return apportion.greedy(gains, budget, where=where)
