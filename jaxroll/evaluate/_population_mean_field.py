"""What happens to a million prompts while a few are rolled out?

  z_i = d_i + s (sqrt(1 - spill) own_i + sqrt(spill) cluster_c(i))

Every prompt has a latent logit that its own rollouts move, and with it, less,
those of its cluster: a lesson on prompt i moves z_i by s^2 and z_j of the same
cluster by s^2 spill times the gradient of z_i. No tokens are needed to play
it: see `simulate`.
"""

import jax.numpy as jnp
import numpy as np

from jaxroll.evaluate._population_pair import Population, check_sizes, pair

_FEATURES = 8


def mean_field(
  num_prompts: int = 10**6,
  *,
  clusters: int = 1000,
  spill: float = 0.2,
  sharpness: float = 4.0,
  mean: float = -2.0,
  std: float = 4.0,
  between: float = 0.5,
  num_eval: int = 1000,
  seed: int = 0,
) -> Population:
  """One latent logit a prompt and one a cluster.

  `z_i = d_i + s (sqrt(1 - spill) own_i + sqrt(spill) cluster_c(i))`

  Args:
    num_prompts: training prompts, >= 1; up to millions.
    clusters: K >= 1; prompts are dealt to them in turn.
    spill: share in [0, 1] of a lesson that reaches the rest of the cluster.
    sharpness: s > 0.
    mean, std: of d over all prompts, std >= 0.
    between: share in [0, 1] of the variance of d that lies between clusters.
    num_eval: held-out prompts, >= 0; only spill-over reaches them.
    seed: of the difficulties.

  Returns:
    A `Population` with parameters {"own": f32[N], "cluster": f32[clusters]};
    the source of a prompt is its cluster, its feature f32[8] a noisy vector
    of the cluster's.

  Raises:
    ValueError: where a number is out of range.

  Note:
    A step's gradient is over all of its rows, so that each prompt's share is
    small: with 1024 prompts and 8192 rows of a million, `optax.sgd(100.0)`
    and VIGOR go from 0.32 to 0.90 in 100 steps.

  Example:
    >>> toy = mean_field(8, clusters=2, num_eval=2)
    >>> params = {"own": jnp.zeros(10), "cluster": jnp.zeros(2)}
    >>> toy.logit(params, jnp.arange(3)).shape
    (3,)
  """
  check_sizes(num_prompts, num_eval, clusters=clusters)
  if not (0 <= spill <= 1 and 0 <= between <= 1):
    raise ValueError(f"spill={spill}, between={between}: must be in [0, 1]")
  if not sharpness > 0 or std < 0:
    raise ValueError(
      f"sharpness={sharpness}, std={std}: sharpness must be > 0, std >= 0"
    )
  rng = np.random.default_rng(seed)
  total = num_prompts + num_eval
  source = (np.arange(total) % clusters).astype(np.int32)
  level, noise = rng.normal(size=clusters), rng.normal(size=total)
  d = np.sqrt(between) * level[source] + np.sqrt(1 - between) * noise
  d = (mean + std * d).astype(np.float32)
  centre = rng.standard_normal((clusters, _FEATURES), np.float32)
  feature = rng.standard_normal((total, _FEATURES), np.float32)
  feature *= np.float32(0.5)
  feature += centre[source]

  def logit(params, ids):
    own = np.sqrt(1 - spill).astype(np.float32) * params["own"][ids]
    cluster = params["cluster"][jnp.asarray(source)[ids]]
    along = own + np.sqrt(spill).astype(np.float32) * cluster
    return sharpness * along + jnp.asarray(d)[ids]

  def init():
    return {
      "own": jnp.zeros(total, jnp.float32),
      "cluster": jnp.zeros(clusters, jnp.float32),
    }

  return pair(
    "mean_field",
    init=init,
    logit=logit,
    start=d,
    source=source,
    feature=feature,
    num_train=num_prompts,
  )
