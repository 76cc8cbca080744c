"""What were a step's rollouts good for?

Only a group of mixed outcome has a gradient. With rewards standardised by the
sample's deviation, as `advantage.grpo` does, a group of n rollouts, k of them
right, moves its prompt's logit by

  sum_j A_j (r_j - p) = sqrt(k (n - k) (n - 1) / n),

and a step by the sum over its groups over all of its rollouts, those without
a signal included.
"""

import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.evaluate._population_pair import Population
from jaxroll.evaluate._population_spend import Spent


def mixed(spent: Spent) -> jax.Array:
  """Which groups have both outcomes.

  Args:
    spent: `Spent` [P].

  Returns:
    bool[P].

  Example:
    >>> mixed(Spent(jnp.array([2, 2, 0]), jnp.array([1, 2, 0]))).tolist()
    [True, False, False]
  """
  return (spent.success > 0) & (spent.success < spent.count)


def mixed_share(spent: Spent) -> jax.Array:
  """Share of the spent rollouts that lie in groups of mixed outcome.

  Args:
    spent: `Spent` [P].

  Returns:
    f32[] in [0, 1]; 0 where nothing was spent.

  Example:
    >>> float(mixed_share(Spent(jnp.array([6, 2]), jnp.array([1, 2]))))
    0.75
  """
  useful = jnp.sum(jnp.where(mixed(spent), spent.count, 0))
  return numerics.safe_divide(useful, jnp.sum(spent.count))


def zero_variance_share(spent: Spent) -> jax.Array:
  """Share of the groups with rollouts whose rewards are all equal.

  Args:
    spent: `Spent` [P].

  Returns:
    f32[] in [0, 1]; 0 where nothing was spent.

  Example:
    >>> float(zero_variance_share(Spent(jnp.array([6, 2]), jnp.array([1, 2]))))
    0.5
  """
  some = spent.count > 0
  return numerics.safe_divide(jnp.sum(some & ~mixed(spent)), jnp.sum(some))


def rollouts_to_target(rollouts, success, target) -> jax.Array:
  """Rollouts spent until a target was first reached.

  Args:
    rollouts: i32[S], spent in each step.
    success: f32[S], mean solve rate after each step.
    target: f32[].

  Returns:
    f32[], inf where the target was not reached.

  Example:
    >>> float(rollouts_to_target(jnp.array([8, 8, 8]),
    ...                          jnp.array([0.1, 0.5, 0.4]), 0.5))
    16.0
  """
  spent = jnp.cumsum(jnp.asarray(rollouts)).astype(jnp.float32)
  return jnp.min(jnp.where(jnp.asarray(success) >= target, spent, jnp.inf))


def logit_gradient(spent: Spent) -> jax.Array:
  """What z-scored REINFORCE makes of a step, by the logit of each prompt.

  `g_i = sqrt(k_i (n_i - k_i) (n_i - 1) / n_i) / sum(n)`

  Args:
    spent: `Spent` [P].

  Returns:
    f32[P], >= 0; 0 in groups of equal outcome.

  Example:
    >>> spent = Spent(jnp.array([9, 7]), jnp.array([1, 7]))
    >>> logit_gradient(spent).tolist()  # sqrt(1 * 8 * 8 / 9) / 16
    [0.1666666716337204, 0.0]
  """
  failure = spent.count - spent.success
  biased = (spent.success * failure).astype(jnp.float32)
  signal = biased * numerics.safe_divide(spent.count - 1, spent.count)
  return numerics.safe_divide(jnp.sqrt(signal), jnp.sum(spent.count))


def policy_gradient(population: Population, params, ids, spent: Spent):
  """The step's z-scored REINFORCE gradient in the policy's parameters.

  Args:
    population: whose.
    params: its parameters.
    ids: i32[P], the step's prompts, -1 for none.
    spent: `Spent` [P].

  Returns:
    A tree like params: the direction of ascent, over all spent rollouts.
  """
  _, pull = jax.vjp(lambda p: population.logit(p, jnp.maximum(ids, 0)), params)
  return pull(logit_gradient(spent))[0]


def exact_gradient(population: Population, params):
  """The gradient of the mean solve rate over the training prompts.

  Args:
    population: whose.
    params: its parameters.

  Returns:
    A tree like params.
  """
  pool = jnp.asarray(population.task.train_pool)

  def success(params):
    return jnp.mean(jax.nn.sigmoid(population.logit(params, pool)))

  return jax.grad(success)(params)


def cosine(update, exact, *, where=None) -> jax.Array:
  """Cosine of the angle between a step's update and the exact gradient.

  Args:
    update: f32[D].
    exact: f32[D].
    where: bool[D], coordinates compared; None for all. Leave out the constant
      one of `population.logistic`, or nothing else is seen.

  Returns:
    f32[] in [-1, 1]; 0 where either is 0.

  Example:
    >>> x, y = jnp.array([1.0, 9.0]), jnp.array([2.0, -9.0])
    >>> float(cosine(x, y, where=jnp.array([True, False])))
    1.0
  """
  if where is not None:
    update, exact = jnp.where(where, update, 0.0), jnp.where(where, exact, 0.0)
  lengths = jnp.linalg.norm(update) * jnp.linalg.norm(exact)
  return numerics.safe_divide(jnp.dot(update, exact), lengths)


def signal_to_noise(gradients, rollouts) -> jax.Array:
  """Squared signal over noise of a step's gradient, by rollout.

    SNR = |E g|^2 / E |g - E g|^2 / rollouts

  unbiased in numerator and denominator: the draws' mean has a variance of
  its own, which is taken off |mean g|^2.

  Args:
    gradients: f32[S, D], of S >= 2 independent draws of the same step.
    rollouts: spent in a step, > 0; their mean where they differ.

  Returns:
    f32[]; inf where the draws are equal, and below 0 where noise hides the
    signal.

  Example:
    >>> g = jnp.array([[1.0, 0.0], [3.0, 0.0]])  # mean 2, variance 2
    >>> float(signal_to_noise(g, 2.0))  # (4 - 2 / 2) / 2 / 2
    0.75
  """
  centre = jnp.mean(gradients, axis=0)
  noise = jnp.sum(jnp.var(gradients, axis=0, ddof=1))
  signal = jnp.sum(centre**2) - noise / gradients.shape[0]
  some = noise > 0
  ratio = signal / jnp.where(some, noise, 1.0) / rollouts
  return jnp.where(some, ratio, jnp.inf)
