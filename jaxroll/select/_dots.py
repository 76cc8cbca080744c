r"""Can every prompt's solve rate be predicted from a few measured ones?

  a_ij = softmax_j(<q_i, r_j> / (sqrt(D) tau)),  p0_i = sum_j a_ij v_j
  p_i  = sigmoid(logit(p0_i) / T + b),  then a linear regression of v on p
  P(i) ~ exp(-|p_i - target| / temperature),  without replacement

q and r are projections of frozen features, v_j the mean reward of a reference
prompt j, T and b come from a small network on the mean and deviation of v.

DOTS: Sun et al. 2025, arXiv:2506.05316.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.select import _groups
from jaxroll.select._moderate import near
from jaxroll.select._top import first, top
from jaxroll.types import Method

_HIDDEN = 10  # units of the calibration network
_EDGE = 1e-4  # solve rates are kept this far from 0 and 1 in a logit


class Weights(NamedTuple):
  """What is learned.

  Attributes:
    query, reference: f32[D, D], projections, or f32[0, 0] for none.
    log_tau: f32[]. hidden: f32[2, 10]. out: f32[10, 2]. bias: f32[2].
  """

  query: jax.Array
  reference: jax.Array
  log_tau: jax.Array
  hidden: jax.Array
  out: jax.Array
  bias: jax.Array


class Predictor(NamedTuple):
  """What DOTS remembers.

  Attributes:
    weights: `Weights`.
    ids: i32[K], the references of the running step, -1 empty.
    value: f32[K], their mean rewards.
  """

  weights: Weights
  ids: jax.Array
  value: jax.Array


def attend(query, reference, value, where, tau):
  """Rates predicted as a convex combination of the references' rates.

  Args:
    query: f32[M, D]. reference: f32[K, D]. value: f32[K].
    where: bool[M, K], references that a prompt may use.
    tau: f32[] > 0.

  Returns:
    f32[M]; 1/2 where a prompt may use none.

  Example:
    >>> p = attend(jnp.array([[1.0, 0.0]]), 2 * jnp.eye(2),
    ...            jnp.array([0.25, 0.75]), jnp.ones((1, 2), bool), 1.0)
    >>> round(float(p[0]), 6)
    0.347785
  """
  chex.assert_shape(where, (query.shape[0], reference.shape[0]))
  score = query @ reference.T / (query.shape[1] ** 0.5 * tau)
  # Finite, so that a prompt without references has no NaN in its gradient.
  score = jnp.where(where, score, -1e30)
  some = jnp.any(where, axis=1)
  share = jnp.where(where, jax.nn.softmax(score, axis=1), 0.0)
  return jnp.where(some, share @ value, 0.5)


def dots(
  *,
  references: int = 256,
  fresh: float = 0.25,
  target: float = 0.5,
  temperature: float = 1e-3,
  tau: float = 0.1,
  learning_rate: float = 1e-3,
  projected: bool = True,
) -> Method:
  """Selection by predicted solve rates, nearest to one half.

  Args:
    references: K, the prompts rolled out last whose rates predict the others.
    fresh: share of the places drawn uniformly, in [0, 1]: new references.
    target: solve rate wanted, in [0, 1].
    temperature: of the draw, > 0; 1e-3 is nearly greedy.
    tau: temperature of the attention on cosines of the features at the start,
      > 0; learned.
    learning_rate: of the predictor, >= 0; 0 keeps it as it is.
    projected: whether projections of the features are learned, too.

  Returns:
    types.Method with state `Predictor`. Prompts of the step are predicted from
    the step's references and the predictor takes a gradient step on the binary
    cross-entropy with what their groups scored.

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> dots(references=64).update.__name__
    'update'

  Note:
    Derived here: the paper rolls out K random prompts beside the batch every
    other step; here a share of the batch's own prompts is random and the last
    K prompts rolled out are the references, at their reward mean. The paper
    trains three-layer projections offline on the data of earlier runs; here
    they are linear, start at the identity and are learned online, on features
    of length 1. No prompt is predicted from itself: a reference has its own
    measured rate.

  Reference:
    Sun et al. 2025, arXiv:2506.05316.
  """
  _check(references, temperature, tau, learning_rate)
  _groups.check_share("fresh", fresh)
  _groups.check_share("target", target)

  def init(sizes, *, key):
    size = min(references, sizes.num_ids)
    width = sizes.num_features if projected else 0
    eye = jnp.eye(width, dtype=jnp.float32)
    weights = Weights(
      query=eye,
      reference=eye + 0,
      log_tau=jnp.log(jnp.float32(tau)),
      hidden=jax.random.normal(key, (2, _HIDDEN), jnp.float32),
      out=jnp.zeros((_HIDDEN, 2), jnp.float32),
      # softplus(0.5413) = 1, tanh(0) = 0: no calibration at first.
      bias=jnp.array([0.541325, 0.0], jnp.float32),
    )
    none = jnp.full((size,), -1, jnp.int32)
    return Predictor(weights, none, jnp.zeros((size,), jnp.float32))

  def apply(state, stats, pool, feature, *, num, blocked=None, quota=None, key):
    seen, ids = jax.lax.top_k(stats.seen, state.ids.shape[0])
    ids = jnp.where(seen >= 0, ids, -1)
    value = jnp.clip(stats.mean[ids], 0.0, 1.0)
    state = Predictor(state.weights, ids, jnp.where(ids >= 0, value, 0.0))
    everyone = jnp.arange(feature.shape[0], dtype=jnp.int32)
    rate = _regressed(predict(state, feature, everyone), state)
    draws, places = jax.random.split(key)
    score = near(rate, target, temperature, draws)
    draw = jax.random.uniform(places, rate.shape, jnp.float32)
    lucky = first(draw, pool, round(fresh * num), blocked)
    # Above any score, in random order.
    score = jnp.where(lucky, jnp.max(score) + 2.0 - draw, score)
    return top(score, pool, num, blocked, quota), state

  def update(state, ids, group, status, reward, feature):
    seen = _groups.seen(feature.shape[0], ids, group, status, reward)
    some = (ids >= 0) & seen.rolled[ids] & jnp.any(state.ids >= 0)
    right = jnp.clip(seen.mean[ids], 0.0, 1.0)

    def loss(weights):
      p = predict(state._replace(weights=weights), feature, ids)
      p = jnp.clip(p, _EDGE, 1 - _EDGE)
      error = right * jnp.log(p) + (1 - right) * jnp.log1p(-p)
      return -numerics.masked_mean(error, some)

    down = jax.grad(loss)(state.weights)
    weights = jax.tree.map(
      lambda x, g: x - learning_rate * g, state.weights, down
    )
    return state._replace(weights=weights)

  return Method(init, apply, update)


def predict(state: Predictor, feature, ids):
  """Calibrated rates of some prompts, before the regression.

  Args:
    state: `Predictor`.
    feature: f32[N, D].
    ids: i32[M].

  Returns:
    f32[M] in (0, 1).
  """
  weights, value = state.weights, state.value
  real = state.ids >= 0
  query = _unit(feature[ids], weights.query)
  reference = _unit(feature[state.ids], weights.reference)
  where = real[None, :] & (state.ids[None, :] != ids[:, None])
  # The temperature is that of cosines: the square root of D is taken out.
  tau = jnp.exp(weights.log_tau) / feature.shape[1] ** 0.5
  p = jnp.clip(attend(query, reference, value, where, tau), _EDGE, 1 - _EDGE)
  middle = numerics.masked_mean(value, real)
  square = numerics.masked_mean(jnp.square(value - middle), real)
  spread = jnp.sqrt(square)
  layer = jax.nn.relu(jnp.stack([middle, spread]) @ weights.hidden)
  scale, shift = layer @ weights.out + weights.bias
  scale = jnp.clip(jax.nn.softplus(scale), 0.01, 10.0)
  return jax.nn.sigmoid((jnp.log(p) - jnp.log1p(-p)) / scale + jnp.tanh(shift))


def _regressed(rate, state):
  """f32[N]: v on p over the references, and their own rates for themselves."""
  real, value = state.ids >= 0, state.value
  at = rate[state.ids]
  middle = numerics.masked_mean(at, real)
  mean = numerics.masked_mean(value, real)
  covariance = numerics.masked_mean((at - middle) * (value - mean), real)
  variance = numerics.masked_mean(jnp.square(at - middle), real)
  # Predictions that do not differ say nothing of the slope.
  slope = jnp.where(variance > 1e-12, covariance, 1.0) / jnp.where(
    variance > 1e-12, variance, 1.0
  )
  line = jnp.where(jnp.any(real), mean + slope * (rate - middle), rate)
  inside = jnp.where(real, state.ids, rate.shape[0])
  return line.at[inside].set(value, mode="drop")


def _unit(feature, projection):
  """f32[M, D], projected where there is a projection, of length 1."""
  feature = feature.astype(jnp.float32)
  if projection.shape[0]:
    feature = feature @ projection
  square = jnp.sum(jnp.square(feature), axis=1, keepdims=True)
  return feature / jnp.sqrt(jnp.maximum(square, 1e-12))


def _check(references, temperature, tau, learning_rate):
  if references < 1:
    raise ValueError(f"dots: references={references} must be >= 1")
  if not (temperature > 0 and tau > 0 and learning_rate >= 0):
    raise ValueError(
      f"dots: temperature={temperature} and tau={tau} must be > 0, "
      f"learning_rate={learning_rate} >= 0"
    )
