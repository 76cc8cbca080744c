r"""How are whole rollouts shared out when the shares are not whole numbers?

Proportional shares: x_i = clip(lambda w_i, low_i, high_i) with the lambda
that makes them sum to the total, then rounded down, and the rollouts left
over go to the largest remainders x_i - floor(x_i) (Hamilton's method).

Marginal gains: where the n-th rollout of prompt i gains g_i(n) and
g_i(1) >= g_i(2) >= ..., handing rollouts out one by one to the largest next
gain maximises sum_i sum_{n <= n_i} g_i(n) (Fox, "Discrete optimization via
marginal analysis", 1966). A heap does it in O(budget log P). The same counts
follow from the budget-th largest entry of the table: what is above it is
taken, what equals it is taken in the heap's order until the budget is spent.
That entry is found by bisection, without sorting, in O(P C).
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# The largest total: float32 shares of more than this are too coarse to settle.
MOST = 2**28
# What -inf maps to: float keys are in order as unsigned integers.
_NEVER = 0x007FFFFF
_SIGN = 0x80000000


# --- proportional


def largest_remainder(
  weights: jax.Array, total, *, available: jax.Array | None = None
) -> jax.Array:
  """Whole numbers in proportion to weights, by largest remainder.

  Args:
    weights: f32[K], finite; what is not > 0 counts as 0. Where all are 0 they
      count as equal.
    total: i32[], 0 <= total <= `MOST`, may be traced; outside it counts as the
      nearest of these.
    available: i32[K], the most that each may get, or None for no bound. What
      one cannot take goes to the others in proportion.

  Returns:
    i32[K] that sums to `total`, or to sum(available) where that is less; of
    equal remainders the lower index is rounded up.

  Raises:
    ValueError: where total is out of range and not traced.

  Example:
    >>> largest_remainder(jnp.array([0.5, 0.3, 0.2]), 64).tolist()
    [32, 19, 13]
  """
  chex.assert_rank(weights, 1)
  _check_total(total)
  total = jnp.asarray(total, jnp.int32)
  low = jnp.zeros(weights.shape, jnp.int32)
  if available is None:
    available = jnp.broadcast_to(total, weights.shape)
  return _share(weights, total, low, jnp.asarray(available, jnp.int32))


def fill(weights: jax.Array, total, *, floor=0, cap) -> jax.Array:
  """Whole numbers in proportion to weights, each between a floor and a cap.

    n_i ~ clip(lambda w_i, floor, cap),  sum_i n_i = total

  Args:
    weights: f32[P], finite; what is not > 0 counts as 0 and gets the floor,
      and equal shares of what is left when all others are at their cap.
    total: i32[], at most `MOST`, may be traced.
    floor: the least of each, an int >= 0 or i32[P], may be traced.
    cap: the most of each, an int >= floor or i32[P], may be traced.

  Returns:
    i32[P] that sums to `total`, and differs by at most 1 where weights and
    bounds are equal. A traced total that is infeasible counts as the nearest
    feasible one.

  Raises:
    ValueError: where numbers that are not traced are infeasible.

  Example:
    >>> fill(jnp.array([10.0, 1.0, 1.0, 1.0]), 32, cap=16).tolist()
    [16, 6, 5, 5]
  """
  chex.assert_rank(weights, 1)
  _check_feasible(weights.shape[0], total, floor, cap)
  low = jnp.broadcast_to(jnp.asarray(floor, jnp.int32), weights.shape)
  high = jnp.broadcast_to(jnp.asarray(cap, jnp.int32), weights.shape)
  return _share(weights, jnp.asarray(total, jnp.int32), low, high)


# --- by marginal gain


def greedy(
  gains: jax.Array, budget, *, where: jax.Array | None = None
) -> jax.Array:
  """How many of each row are among the `budget` largest entries of a table.

  What a max-heap of each row's next entry hands out one by one.

  Args:
    gains: f32[P, C], the gain of each further rollout of a prompt; no row
      increases. -inf is never taken, nor is NaN.
    budget: i32[], may be traced.
    where: bool[P], rows that may be taken from, or None for all.

  Returns:
    i32[P] in [0, C], the sum is min(budget, entries that can be taken). Of
    equal gains those of the lower prompt go first.

  Example:
    >>> gains = jnp.array([[0.9, 0.2, 0.1], [0.5, 0.4, 0.2]])
    >>> greedy(gains, 4).tolist()
    [2, 2]

  Reference:
    Fox, 1966, Operations Research 14(2).
  """
  chex.assert_rank(gains, 2)
  keys = _ordered(gains)
  if where is not None:
    keys = jnp.where(where[:, None], keys, jnp.uint32(_NEVER))
  budget = jnp.maximum(jnp.asarray(budget, jnp.int32), 0)
  cut = _nth_largest(keys, jnp.maximum(budget, 1))
  # Where the budget takes all that there is, nothing equals the cut.
  cut = jnp.maximum(cut, jnp.uint32(_NEVER))
  above = _row_counts(keys > cut)
  equal = _row_counts((keys == cut) & (cut > jnp.uint32(_NEVER)))
  before = jnp.cumsum(equal) - equal
  left = budget - jnp.sum(above)
  return above + jnp.clip(left - before, 0, equal)


def gain_table(
  gain: Callable, have: jax.Array, depth: int, *, cap=None
) -> jax.Array:
  """The gains of the next `depth` rollouts of each prompt, for `greedy`.

  Args:
    gain: i32[P] -> f32[P], the gain of one more rollout by the number had;
      under vmap, it is asked for all columns at once.
    have: i32[P], rollouts that each prompt has.
    depth: C, columns, static: the most that a prompt may be given.
    cap: most rollouts of a prompt with those it has, an int or i32[P], or
      None for no bound.

  Returns:
    f32[P, C]; -inf beyond the cap.

  Example:
    >>> gain_table(lambda n: 1 / (n + 1), jnp.array([0, 1]), 2, cap=2).tolist()
    [[1.0, 0.5], [0.5, -inf]]
  """
  chex.assert_rank(have, 1)
  taken = jnp.arange(depth, dtype=jnp.int32)
  gains = jax.vmap(lambda n: gain(have + n), out_axes=1)(taken)
  if cap is None:
    return gains.astype(jnp.float32)
  cap = jnp.broadcast_to(jnp.asarray(cap, jnp.int32), have.shape)
  room = have[:, None] + taken[None] < cap[:, None]
  return jnp.where(room, gains.astype(jnp.float32), -jnp.inf)


# --- gains


def p_mixed(p: jax.Array, n: jax.Array) -> jax.Array:
  """Chance that n rollouts are neither all right nor all wrong.

    1 - p^n - (1 - p)^n,  0 for n <= 1

  Args:
    p: f32[...], solve rates in [0, 1].
    n: i32, a scalar or broadcastable to p.

  Returns:
    f32[...] in [0, 1].

  Example:
    >>> float(p_mixed(jnp.float32(0.5), jnp.int32(3)))
    0.75
  """
  p, n = jnp.asarray(p, jnp.float32), jnp.asarray(n, jnp.int32)
  rarer = jnp.minimum(p, 1 - p)
  # 1 - (1 - q)^n keeps its digits when q is tiny.
  seen = -jnp.expm1(n.astype(jnp.float32) * jnp.log1p(-rarer))
  return jnp.where(n > 1, jnp.maximum(seen - _power(rarer, n), 0.0), 0.0)


def mixed_gain(p: jax.Array, have: jax.Array) -> jax.Array:
  """Growth of the chance of a mixed group by one more rollout.

    p^h (1 - p) + (1 - p)^h p,  0 for h = 0

  Args:
    p: f32[...], solve rates in [0, 1].
    have: i32, h, rollouts so far, a scalar or broadcastable to p. From h = 1
      on the gain does not increase; before, it does, so that `greedy` needs a
      first rollout to be given.

  Returns:
    f32[...] in [0, 1/2].

  Example:
    >>> float(mixed_gain(jnp.float32(0.5), jnp.int32(1)))
    0.5
  """
  p, have = jnp.asarray(p, jnp.float32), jnp.asarray(have, jnp.int32)
  gain = _power(p, have) * (1 - p) + _power(1 - p, have) * p
  return jnp.where(have > 0, gain, 0.0)


def variance_gain(p: jax.Array, have: jax.Array) -> jax.Array:
  """Fall of the variance of a prompt's mean reward by one more rollout.

    p (1 - p) (1/h - 1/(h + 1)),  p (1 - p) for h = 0

  Args:
    p: f32[...], solve rates in [0, 1].
    have: i32, h, rollouts so far, a scalar or broadcastable to p.

  Returns:
    f32[...] in [0, 1/4]; it does not increase in h.

  Example:
    >>> float(variance_gain(jnp.float32(0.5), jnp.int32(1)))
    0.125
  """
  p, have = jnp.asarray(p, jnp.float32), jnp.asarray(have, jnp.int32)
  n = have.astype(jnp.float32)
  return p * (1 - p) / jnp.where(have > 0, n * (n + 1), 1.0)


# --- private


def _known(*numbers):
  """Whether Python may look at their values."""
  return not any(isinstance(x, jax.core.Tracer) for x in numbers)


def _check_total(total):
  if _known(total) and not 0 <= int(total) <= MOST:
    raise ValueError(
      f"total={total} must be in [0, {MOST}]: share out less at once"
    )


def _check_feasible(num, total, floor, cap):
  _check_total(total)
  if _known(floor) and np.any(np.asarray(floor) < 0):
    raise ValueError(f"floor={floor} must be >= 0")
  if _known(floor, cap) and np.any(np.asarray(cap) < np.asarray(floor)):
    raise ValueError(
      f"cap={cap} < floor={floor} is infeasible: raise the cap or lower the "
      "floor"
    )
  if not _known(total, floor, cap):
    return
  least, most = (
    int(np.sum(np.broadcast_to(np.asarray(x, np.int64), (num,))))
    for x in (floor, cap)
  )
  if not least <= int(total) <= most:
    raise ValueError(
      f"total={total} is infeasible: floor={floor} and cap={cap} of {num} "
      f"allow {least} <= total <= {most}; change the total or the bounds"
    )


def _share(weights, total, low, high):
  """clip(lambda weights, low, high), rounded to sum to total."""
  total = jnp.clip(jnp.clip(total, 0, MOST), _sum(low), _sum(high))
  # Nobody gets more than all of it: sums of bounds stay in range.
  high = jnp.maximum(jnp.minimum(high, total), low)
  some = weights > 0
  weights = jnp.where(some, weights, 0.0).astype(jnp.float32)
  # Those of weight 0 share equally what those of positive weight cannot take.
  spill = total > _sum(jnp.where(some, high, low))
  low = jnp.where(spill & some, high, low)
  weights = jnp.where(spill, jnp.where(some, 0.0, 1.0), weights)
  weights = weights / jnp.maximum(jnp.max(weights), jnp.float32(1e-30))

  share = _clipped_shares(weights, total, low, high)
  counts = jnp.clip(jnp.floor(share).astype(jnp.int32), low, high)

  def settle(counts):
    """One more, or one less, for those furthest from their share."""
    left = total - jnp.sum(counts)
    sign = jnp.where(left > 0, 1, -1)
    room = jnp.where(left > 0, counts < high, counts > low)
    lacking = sign.astype(jnp.float32) * (share - counts.astype(jnp.float32))
    lacking = jnp.where(room, lacking, -jnp.inf)
    return counts + sign * greedy(lacking[:, None], jnp.abs(left))

  # One pass but for rounding errors of very large totals.
  unsettled = lambda counts: jnp.sum(counts) != total  # noqa: E731
  return lax.while_loop(unsettled, settle, counts)


def _sum(x):
  """Sum of counts, as `MOST` + 1 where it is more: it must not wrap round."""
  wide = jnp.sum(x.astype(jnp.float32))
  return jnp.where(wide > MOST, MOST + 1, jnp.sum(x))


def _clipped_shares(weights, total, low, high):
  """clip(lambda weights, low, high) with the lambda that sums to total."""
  total = total.astype(jnp.float32)
  least, most = low.astype(jnp.float32), high.astype(jnp.float32)

  def shares(scale):
    return jnp.clip(scale * weights, least, most)

  def fits(bits):
    scale = lax.bitcast_convert_type(bits, jnp.float32)
    return jnp.sum(shares(scale)) <= total

  # The largest float whose shares do not exceed the total. 0x7F7FFFFF is the
  # largest finite one.
  bits = _largest_uint(fits, 0x7F7FFFFF)
  scale = lax.bitcast_convert_type(bits, jnp.float32)
  raw = scale * weights
  # Exactly proportional among those that no bound holds.
  free = (raw > least) & (raw < most)
  held = jnp.sum(jnp.where(free, 0.0, shares(scale)))
  weight = jnp.sum(jnp.where(free, weights, 0.0))
  exact = jnp.where(
    weight > 0, (total - held) / jnp.where(weight > 0, weight, 1.0), scale
  )
  return jnp.where(free, jnp.clip(exact * weights, least, most), shares(scale))


def _largest_uint(holds, most, bits=32):
  """The largest u32 <= most for which a falling predicate holds; 0 else."""

  def narrow(i, found):
    tried = found | (jnp.uint32(1) << (bits - 1 - i).astype(jnp.uint32))
    good = (tried <= jnp.uint32(most)) & holds(tried)
    return jnp.where(good, tried, found)

  return lax.fori_loop(0, bits, narrow, jnp.uint32(0))


def _ordered(x):
  """u32 that are ordered as the floats are; NaN as -inf, -0 as 0."""
  x = jnp.where(jnp.isnan(x), -jnp.inf, x.astype(jnp.float32) + 0.0)
  bits = lax.bitcast_convert_type(x, jnp.uint32)
  sign = jnp.uint32(_SIGN)
  return jnp.where(bits >= sign, ~bits, bits | sign)


def _nth_largest(keys, n):
  """The largest key that at least n keys reach; n >= 1, traced."""

  def nth(halves):
    def reached(half):
      return jnp.sum(_row_counts(halves >= half.astype(jnp.uint16))) >= n

    return _largest_uint(reached, 0xFFFF, bits=16)

  # A half at a time: the passes are bound by memory, and read two bytes an
  # entry. What the high half decides is put beyond all low ones.
  high = (keys >> 16).astype(jnp.uint16)
  first = nth(high)
  decided = jnp.where(keys >> 16 > first, jnp.uint32(0xFFFF), jnp.uint32(0))
  low = jnp.where(keys >> 16 == first, keys & 0xFFFF, decided)
  return first << 16 | nth(low.astype(jnp.uint16))


def _row_counts(mask):
  # The barrier keeps XLA from merging this sum with the sum over rows into
  # one, which a CPU does ten times slower.
  return lax.optimization_barrier(jnp.sum(mask, axis=1, dtype=jnp.int32))


def _power(x, n):
  """x^n with whole n >= 0 and 0^0 = 1; the logarithm is made once a table."""
  return jnp.where(n == 0, 1.0, jnp.exp(n.astype(jnp.float32) * jnp.log(x)))
