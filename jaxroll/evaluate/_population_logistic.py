"""What does an allocation find where all prompts share one easy direction?

  P(reward 1 | prompt i) = sigmoid(s w . x_i + d_i),   d_i ~ N(mean, std^2)

x_i holds Gaussians of variance 1 / features and, last, a constant 1. The
constant coordinate raises every prompt at once and dominates training: read
directions without it, and do not compare rollouts to a target at one fixed
learning rate, since a method that finds more mixed groups takes larger steps.
"""

import jax.numpy as jnp
import numpy as np

from jaxroll.evaluate._population_pair import Population, check_sizes, pair


def logistic(
  num_prompts: int = 1024,
  *,
  features: int = 24,
  sharpness: float = 4.0,
  mean: float = -2.0,
  std: float = 4.0,
  num_eval: int = 128,
  seed: int = 0,
) -> Population:
  """A logistic policy over Gaussian features and a constant.

  `P(reward 1 | prompt i) = sigmoid(sharpness w . x_i + d_i)`

  Args:
    num_prompts: training prompts, >= 1.
    features: Gaussian coordinates, >= 1; the constant one comes after them.
    sharpness: s > 0, steepness in w . x.
    mean, std: of the difficulty d, std >= 0. The defaults give a mean solve
      rate of a third, with most prompts close to 0 or 1.
    num_eval: held-out prompts, >= 0.
    seed: of the features and difficulties.

  Returns:
    A `Population` with parameters {"w": f32[features + 1]} and one source.

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> toy = logistic(8, num_eval=2)
    >>> toy.solve_rate({"w": jnp.zeros(25)}).shape
    (10,)
  """
  check_sizes(num_prompts, num_eval, features=features)
  if not sharpness > 0 or std < 0:
    raise ValueError(
      f"sharpness={sharpness}, std={std}: sharpness must be > 0, std >= 0"
    )
  rng = np.random.default_rng(seed)
  total = num_prompts + num_eval
  x = rng.normal(size=(total, features)) / np.sqrt(features)
  x = np.concatenate([x, np.ones((total, 1))], axis=1).astype(np.float32)
  d = rng.normal(mean, std, size=total).astype(np.float32)

  def logit(params, ids):
    along = jnp.asarray(x)[ids] @ params["w"]
    return sharpness * along + jnp.asarray(d)[ids]

  return pair(
    "logistic",
    init=lambda: {"w": jnp.zeros(features + 1, jnp.float32)},
    logit=logit,
    start=d,
    source=np.zeros(total),
    feature=x,
    num_train=num_prompts,
  )
