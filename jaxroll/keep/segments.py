"""Which parts of a trace help to get the answer right?

For loops of their own that sample continuations from the prefixes of a trace:
these functions take one trace's plain arrays, `jax.vmap` takes many. With
v_0 ... v_S the success rates of continuations of the prefixes that end before
segment 1, 2, ..., and after the last,

  c_s = v_s - v_{s-1}                   contribution of segment s, sum v_S - v_0
  helps  iff  c_s >= -tol for all s, and v_S > v_0

EntroCoT cuts a trace where the entropy is highest and drops it where a segment
does not help. Orchard trains on the turns of a failed trajectory whose value
rises, and on nothing else of it.

Papers: EntroCoT, 2026, arXiv:2601.03769; Orchard, 2026, arXiv:2605.15040.
"""

import chex
import jax
import jax.numpy as jnp

__all__ = ["contributions", "cut_points", "helps", "prefix_values", "rises"]


def cut_points(
  entropy: chex.Array, valid: chex.Array, *, k: int = 8, min_gap: int = 16
) -> chex.Array:
  """The k tokens of highest entropy at least `min_gap` apart, where cuts go.

  Args:
    entropy: f32[T], nats; unread where not valid.
    valid: bool[T], tokens of the trace.
    k: cuts wanted, >= 1.
    min_gap: least distance of two cuts, in tokens, >= 1.

  Returns:
    i32[k], ascending, each the first token of a segment; -1 at the end where
    fewer fit. Token 0 is never a cut; ties go to the earlier token.

  Raises:
    ValueError: where a number is less than 1.

  Note:
    The greedy rule and both numbers are derived here: the source says that
    cuts lie at uncertain tokens.

  Example:
    >>> entropy = jnp.array([0.1, 2.0, 0.2, 1.8, 1.9, 0.1, 0.0, 1.0])
    >>> cut_points(entropy, jnp.ones(8, bool), k=3, min_gap=2).tolist()
    [1, 4, 7]

  Reference:
    EntroCoT, 2026, arXiv:2601.03769.
  """
  if k < 1 or min_gap < 1:
    raise ValueError(f"k={k}, min_gap={min_gap}: both must be at least 1")
  chex.assert_rank([entropy, valid], 1)
  chex.assert_equal_shape([entropy, valid])
  size = entropy.shape[0]
  place = jnp.arange(size, dtype=jnp.int32)

  def cut(free, _):
    score = jnp.where(free, entropy.astype(jnp.float32), -jnp.inf)
    best = jnp.argmax(score).astype(jnp.int32)
    at = jnp.where(jnp.any(free), best, size)
    return free & (jnp.abs(place - at) >= min_gap), at

  _, cuts = jax.lax.scan(cut, valid & (place > 0), length=k)
  cuts = jnp.sort(cuts)
  return jnp.where(cuts < size, cuts, -1)


def prefix_values(success: chex.Array) -> chex.Array:
  """Success rate of the continuations of each prefix.

  Args:
    success: [S + 1, M], bool or in [0, 1], of M continuations of a prefix.

  Returns:
    f32[S + 1].

  Example:
    >>> prefix_values(jnp.array([[0, 0, 1, 0], [1, 1, 1, 1]])).tolist()
    [0.25, 1.0]

  Reference:
    EntroCoT, 2026, arXiv:2601.03769.
  """
  chex.assert_rank(success, 2)
  return jnp.mean(success.astype(jnp.float32), axis=1)


def contributions(value: chex.Array) -> chex.Array:
  """What each segment, or turn, adds to the success rate.

  Args:
    value: f32[S + 1], of the prefixes, the question's first.

  Returns:
    f32[S], sums to the last value less the first.

  Example:
    >>> contributions(jnp.array([0.25, 0.5, 0.25, 1.0])).tolist()
    [0.25, -0.25, 0.75]

  Reference:
    EntroCoT, 2026, arXiv:2601.03769.
  """
  chex.assert_rank(value, 1)
  return jnp.diff(value.astype(jnp.float32))


def helps(value: chex.Array, *, tol: float = 0.0) -> chex.Array:
  """Whether no segment lowers the success rate, and the whole raises it.

  Args:
    value: f32[S + 1], of the prefixes, the question's first.
    tol: fall of the rate that a segment is forgiven, >= 0. Of M continuations
      a rate v is known to sqrt(v (1 - v) / M): with few, 0 rejects most good
      traces.

  Returns:
    bool[]; False for a rate that is the same throughout.

  Raises:
    ValueError: if `tol` is negative.

  Note:
    The tolerance and the demand that the whole helps are derived here: the
    source keeps traces whose every step helps.

  Example:
    >>> value = jnp.array([0.25, 0.5, 0.25, 1.0])
    >>> bool(helps(value)), bool(helps(value, tol=0.25))
    (False, True)

  Reference:
    EntroCoT, 2026, arXiv:2601.03769.
  """
  if not tol >= 0:
    raise ValueError(f"tol={tol} must be >= 0: the fall that is forgiven")
  return jnp.all(contributions(value) >= -tol) & (value[-1] > value[0])


def rises(
  value: chex.Array, *, min_gain: float = 0.0, min_length: int = 1
) -> chex.Array:
  """The turns of a trajectory in runs of rising value.

  Args:
    value: f32[T + 1], chance of success before each turn and after the last;
      a NaN breaks a run.
    min_gain: a turn belongs to a run if it adds more than this, >= 0.
    min_length: turns of the shortest run that counts, >= 1.

  Returns:
    bool[T]: True for the turns to be trained on, the others are context.

  Raises:
    ValueError: where a number is out of its range.

  Note:
    Both numbers are derived here: the source trains on every rising run.

  Example:
    >>> rises(jnp.array([0.1, 0.3, 0.5, 0.5, 0.4, 0.6])).tolist()
    [True, True, False, False, True]

  Reference:
    Orchard, 2026, arXiv:2605.15040 (credit-assignment SFT).
  """
  if not min_gain >= 0 or min_length < 1:
    raise ValueError(
      f"min_gain={min_gain} must be >= 0 and min_length={min_length} >= 1"
    )
  rising = contributions(value) > min_gain
  # A run's number grows at every turn that does not rise: runs share none.
  run = jnp.cumsum((~rising).astype(jnp.int32))
  length = jax.ops.segment_sum(
    rising.astype(jnp.int32), run, rising.shape[0] + 1
  )
  return rising & (length[run] >= min_length)
