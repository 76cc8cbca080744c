r"""How are masks, uneven groups, log-probs and KLs reduced without surprises?

Everything reduces in fp32 and states its zero case; what a mask excludes is
replaced *before* it is used, so that NaN or inf there changes neither a value
nor a gradient. A group's mean is taken about its smallest member,

  mean_p = min_p + sum_{i in p} (x_i - min_p) / n_p,

so that `x - mean` of a tied group is exactly 0 in floating point. Ids outside
[0, num_groups) belong to no group. The KL estimators are Schulman's
("Approximating KL divergence", 2020, joschu.net/blog/kl-approx.html); moments
are merged by Chan, Golub & LeVeque ("Updating formulae and a pairwise
algorithm for computing sample variances", 1979).
"""

import chex
import jax
import jax.numpy as jnp
from jax import lax

# k3 is exp(d) - 1 - d with d = ref_logp - logp cut off here; exp(20) = 4.9e8.
K3_BOUND = 20.0


def safe_divide(x, y):
  """x / y, and 0 with zero gradients where y == 0.

  Args:
    x: numerator, any shape; unread where y == 0.
    y: denominator, broadcastable to x.

  Returns: f32 quotient.

  >>> safe_divide(jnp.array([1.0, 2.0]), jnp.array([4.0, 0.0]))
  Array([0.25, 0.  ], dtype=float32)
  """
  x, y = _f32(x), _f32(y)
  zero = y == 0
  return jnp.where(zero, 0.0, x) / jnp.where(zero, 1.0, y)


# --- masks


def masked_sum(x, mask, axis=None):
  """Sum of x where mask is True; 0 where nothing is.

  Args:
    x: any shape and real dtype; unread where mask is False.
    mask: bool, the shape of x.
    axis: axis or axes to reduce, None for all.

  Returns: f32 sum.

  >>> masked_sum(jnp.array([1.0, jnp.nan, 2.0]), jnp.array([True, False, True]))
  Array(3., dtype=float32)
  """
  chex.assert_equal_shape([x, mask])
  return jnp.sum(jnp.where(mask, _f32(x), 0.0), axis=axis)


def masked_mean(x, mask, axis=None):
  """Mean of x where mask is True; 0 where nothing is.

  Args: x, mask, axis: as in `masked_sum`.

  Returns: f32 mean.

  >>> masked_mean(jnp.array([1.0, 5.0, 2.0]), jnp.array([True, False, True]))
  Array(1.5, dtype=float32)
  """
  count = jnp.sum(_f32(mask), axis=axis)
  return safe_divide(masked_sum(x, mask, axis), count)


# --- groups


def group_sum(x, group, num_groups, where):
  """Sum of x by group; 0 for an empty group.

  Args:
    x: [B], real or bool; unread where `where` is False.
    group: i32[B]; rows outside [0, num_groups) are dropped.
    num_groups: P, static.
    where: bool[B], rows that count.

  Returns: f32[P].

  >>> group_sum(jnp.array([1.0, 2.0, 4.0]), jnp.array([0, 0, 1]), 3,
  ...           jnp.array([True, True, False]))
  Array([3., 0., 0.], dtype=float32)
  """
  x, bins = _members(x, group, num_groups, where)
  return jax.ops.segment_sum(x, bins, num_groups)


def group_count(group, num_groups, where):
  """Number of rows by group.

  Args: group, num_groups, where: as in `group_sum`.

  Returns: i32[P].

  >>> group_count(jnp.array([0, 0, 2]), 3, jnp.array([True, True, True]))
  Array([2, 0, 1], dtype=int32)
  """
  _, bins = _members(where, group, num_groups, where)
  one = jnp.ones(group.shape, jnp.int32)
  return jax.ops.segment_sum(one, bins, num_groups)


def group_mean(x, group, num_groups, where):
  """Mean of x by group; 0 for an empty group, exactly x for a tied one.

  Args: x, group, num_groups, where: as in `group_sum`.

  Returns: f32[P].

  >>> group_mean(jnp.array([1.0, 2.0, 4.0]), jnp.array([0, 0, 2]), 3,
  ...            jnp.array([True, True, True]))
  Array([1.5, 0. , 4. ], dtype=float32)
  """
  x, _ = _members(x, group, num_groups, where)
  # A constant to the gradient: the mean does not depend on where it is taken.
  low, _ = _group_range(lax.stop_gradient(x), group, num_groups, where)
  excess = group_sum(x - _pick(low, group), group, num_groups, where)
  return low + safe_divide(excess, group_count(group, num_groups, where))


def group_moments(x, group, num_groups, where):
  """Count, mean and sum of squared deviations by group.

  Args: x, group, num_groups, where: as in `group_sum`.

  Returns:
    count, mean, m2: f32[P] each, as `merge_moments` takes them; an empty
    group has zeros, a tied one has m2 exactly 0.

  >>> count, mean, m2 = group_moments(
  ...   jnp.array([1.0, 3.0]), jnp.array([0, 0]), 1, jnp.array([True, True]))
  >>> float(count[0]), float(mean[0]), float(m2[0])
  (2.0, 2.0, 2.0)
  """
  x, _ = _members(x, group, num_groups, where)
  mean = group_mean(x, group, num_groups, where)
  square = jnp.square(x - _pick(mean, group))
  m2 = group_sum(square, group, num_groups, where)
  return _f32(group_count(group, num_groups, where)), mean, m2


def group_std(x, group, num_groups, where, ddof=1):
  """Standard deviation of x by group: sqrt(m2 / (count - ddof)).

  Exactly 0, with zero gradient, for a tied group and where count <= ddof.

  Args:
    x, group, num_groups, where: as in `group_sum`.
    ddof: 1 for the sample's, 0 for the population's.

  Returns: f32[P].

  >>> group_std(jnp.array([1.0, 3.0, 9.0]), jnp.array([0, 0, 1]), 2,
  ...           jnp.array([True, True, True]), ddof=0)
  Array([1., 0.], dtype=float32)
  """
  count, _, m2 = group_moments(x, group, num_groups, where)
  variance = safe_divide(m2, jnp.maximum(count - ddof, 0.0))
  spread = variance > 0
  return jnp.where(spread, jnp.sqrt(jnp.where(spread, variance, 1.0)), 0.0)


def group_tied(x, group, num_groups, where):
  """Whether a group carries no signal: fewer than two rows, or min == max.

  Args: x, group, num_groups, where: as in `group_sum`.

  Returns: bool[P].

  >>> group_tied(jnp.array([1.0, 1.0, 0.0, 1.0]), jnp.array([0, 0, 1, 1]), 2,
  ...            jnp.array([True, True, True, True]))
  Array([ True, False], dtype=bool)
  """
  low, high = _group_range(x, group, num_groups, where)
  return low == high


def merge_moments(a, b):
  """Moments of the union of two samples (Chan et al. 1979).

    w = w_a + w_b,  d = mean_b - mean_a,  mean = mean_a + d w_b / w,
    m2 = m2_a + m2_b + d^2 w_a w_b / w.

  Args:
    a, b: (weight, mean, m2), f32 arrays of one shape; weights >= 0. The mean
      of a sample of weight 0 is unread.

  Returns:
    (weight, mean, m2); mean 0 where both weights are 0.

  >>> zero, one, two = jnp.arange(3.0)
  >>> [float(x) for x in merge_moments((one, one, zero), (one, two, zero))]
  [2.0, 1.5, 0.5]
  """
  (weight_a, mean_a, m2_a), (weight_b, mean_b, m2_b) = a, b
  chex.assert_equal_shape([weight_a, mean_a, m2_a, weight_b, mean_b, m2_b])
  some_a, some_b = weight_a > 0, weight_b > 0
  # An empty sample borrows the other's mean: then the difference is exactly 0.
  left = jnp.where(some_a, mean_a, jnp.where(some_b, mean_b, 0.0))
  right = jnp.where(some_b, mean_b, left)
  share = safe_divide(weight_b, weight_a + weight_b)
  delta = right - left
  m2 = m2_a + m2_b + jnp.square(delta) * weight_a * share
  return weight_a + weight_b, left + delta * share, m2


# --- log-probs


def token_logp(logits, tokens):
  """log softmax(logits)[token], nats.

  Args:
    logits: [..., V], any float dtype; -inf removes a token. At least one
      logit of a row must be finite.
    tokens: i32[...] in [0, V).

  Returns:
    f32[...]; -inf for a removed token. Gradients are finite.

  >>> token_logp(jnp.array([[0.0, 0.0, -jnp.inf]]), jnp.array([1]))
  Array([-0.6931472], dtype=float32)
  """
  chex.assert_equal_shape_prefix([logits, tokens], tokens.ndim)
  shifted, log_norm = _normalise(logits)
  taken = jnp.take_along_axis(shifted, tokens[..., None], axis=-1)
  return jnp.squeeze(taken, -1) - log_norm


def entropy(logits):
  """Entropy of softmax(logits), nats: log Z - sum_v p_v logit_v.

  Args: logits: as in `token_logp`.

  Returns:
    f32[...] in [0, log V]. Gradients are finite.

  >>> entropy(jnp.array([0.0, 0.0, -jnp.inf]))
  Array(0.6931472, dtype=float32)
  """
  shifted, log_norm = _normalise(logits)
  p = jnp.exp(shifted - log_norm[..., None])
  # 0 * -inf: a removed token has p = 0, any finite logit gives its term 0.
  return log_norm - jnp.sum(p * jnp.where(p > 0, shifted, 0.0), axis=-1)


def k1(logp, ref_logp):
  """KL(policy || reference), estimated by logp - ref_logp at a sampled token.

  Unbiased and of either sign; its expected gradient as a loss is zero, so it
  belongs in the reward.

  Args:
    logp, ref_logp: [...], nats, of a token sampled from the policy.

  Returns: f32[...].

  >>> float(k1(jnp.array(-1.0), jnp.array(-2.0)))
  1.0
  """
  return _f32(logp) - _f32(ref_logp)


def k2(logp, ref_logp):
  """KL(policy || reference), estimated by (logp - ref_logp)^2 / 2.

  Biased and >= 0; its expected gradient is the KL's.

  Args and Returns: as for `k1`.

  >>> float(k2(jnp.array(-1.0), jnp.array(-2.0)))
  0.5
  """
  return jnp.square(k1(logp, ref_logp)) / 2


def k3(logp, ref_logp):
  """KL(policy || reference), estimated by exp(d) - 1 - d, d = ref_logp - logp.

  Unbiased and >= 0.

  Args and Returns: as for `k1`.

  Note:
    d is cut off at `K3_BOUND` = 20: the value stays finite, and a token whose
    reference probability is more than e^20 times the policy's has gradient 0.

  >>> round(float(k3(jnp.array(-1.0), jnp.array(-2.0))), 4)
  0.3679
  """
  d = jnp.minimum(-k1(logp, ref_logp), K3_BOUND)
  return jnp.expm1(d) - d


# --- layout


def expand_counts(counts, rows):
  """Rows of each group laid out one group after the other.

  Args:
    counts: i32[P], rows of each group, >= 0.
    rows: R, static; what exceeds it is cut off.

  Returns:
    group i32[R]: the group whose cumulative count covers the row;
    rank i32[R]: 0, 1, ... inside it; valid bool[R]: False for the unused
    tail, where group and rank are 0.

  >>> group, rank, valid = expand_counts(jnp.array([2, 0, 1]), 4)
  >>> group.tolist(), rank.tolist(), valid.tolist()
  ([0, 0, 2, 0], [0, 1, 0, 0], [True, True, True, False])
  """
  chex.assert_rank(counts, 1)
  counts = counts.astype(jnp.int32)
  ends = jnp.cumsum(counts)
  row = jnp.arange(rows, dtype=jnp.int32)
  valid = row < ends[-1]
  # side="right" steps over groups without rows.
  group = jnp.searchsorted(ends, row, side="right").astype(jnp.int32)
  group = jnp.where(valid, group, 0)
  rank = jnp.where(valid, row - (ends - counts)[group], 0)
  return group, rank, valid


def rank_by(*keys):
  """Rank of each entry: first key descending, then the second ..., then index.

  Args:
    *keys: [P] each, float, int or bool; NaN ranks last.

  Returns:
    i32[P], a permutation of 0 ... P - 1.

  >>> rank_by(jnp.array([1, 3, 3]), jnp.array([0.0, 0.5, 0.7]))
  Array([2, 1, 0], dtype=int32)
  """
  chex.assert_rank(keys, 1)
  chex.assert_equal_shape(keys)
  index = jnp.arange(keys[0].shape[0], dtype=jnp.int32)
  operands = (*(_descending(key) for key in keys), index)
  order = lax.sort(operands, num_keys=len(operands))[-1]
  return jnp.zeros_like(index).at[order].set(index, unique_indices=True)


# --- private


def _f32(x):
  return jnp.asarray(x, dtype=jnp.float32)


def _members(x, group, num_groups, where):
  """x with 0, and segment ids past the end, for rows that do not count."""
  chex.assert_rank([x, group, where], 1)
  chex.assert_equal_shape([x, group, where])
  inside = where & (group >= 0) & (group < num_groups)
  return jnp.where(inside, _f32(x), 0.0), jnp.where(inside, group, num_groups)


def _pick(by_group, group):
  """by_group[group]; some finite entry for ids outside."""
  return by_group[jnp.clip(group, 0, by_group.shape[0] - 1)]


def _group_range(x, group, num_groups, where):
  """Smallest and largest x by group; 0 for an empty group."""
  x, bins = _members(x, group, num_groups, where)
  some = group_count(group, num_groups, where) > 0
  low = jax.ops.segment_min(x, bins, num_groups)
  high = jax.ops.segment_max(x, bins, num_groups)
  return jnp.where(some, low, 0.0), jnp.where(some, high, 0.0)


def _normalise(logits):
  """Logits less their largest, and the log of their normaliser."""
  logits = _f32(logits)
  # Softmax does not depend on the shift, so it needs no gradient.
  shifted = logits - lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
  return shifted, jnp.log(jnp.sum(jnp.exp(shifted), axis=-1))


def _descending(key):
  """A key whose ascending order is the descending one of `key`."""
  # ~x = -x - 1 for signed integers: reverses the order and cannot overflow.
  return -key if jnp.issubdtype(key.dtype, jnp.floating) else ~key
