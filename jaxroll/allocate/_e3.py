"""How much more do the prompts get that were solved least often so far?

Prompts are ranked by mean reward, best first: rank_i = position / P. A budget
of P n rollouts gives everyone n_min and shares the others out by rank:

  w_i = rank_i / sum_j rank_j,  n_i = floor(n_min + (P n - P n_min) w_i)

What rounding leaves goes to the prompts in order of falling rank, each filled
up to n_max before the next. The bounds start at n and widen every epoch:

  n_min <- max(n_min - widen, low),  n_max <- min(n_max + widen, high)

E3-RL4LLMs: Liao et al. (2025), arXiv:2505.18573.
"""

import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.types import Allocator, PromptStats


def e3(*, low: int = 4, high: int = 12, widen: int = 2) -> Allocator:
  """Rollouts by rank of difficulty, between bounds that widen.

  Args:
    low: least rollouts of a prompt in the end, >= 1.
    high: bound up to which the remainder fills a prompt in the end, >= low.
    widen: by how much the bounds move in an epoch, >= 0.

  Returns:
    An `Allocator` of one round that spends all of its rows.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget is below `low` rows a prompt.

  Example:
    >>> e3().rounds(64, 8)
    (64,)

  Note:
    The paper ranks the whole data set at the end of an epoch; here the step's
    prompts, a sample of it, are ranked by what is known of them before the
    step. Epochs are counted, as derived here, by the rollouts behind the
    step's prompts: floor(sum of their weights / rows). A prompt that was never
    rolled out ranks as one of mean 0. The share by rank is not bounded by
    n_max, only the remainder is.

  Reference:
    Liao et al., 2025, arXiv:2505.18573.
  """
  if not 1 <= low <= high:
    raise ValueError(f"e3: low={low}, high={high} must have 1 <= low <= high")
  if widen < 0:
    raise ValueError(f"e3: widen={widen} must be >= 0")

  def rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
    if budget < low * num_prompts:
      raise ValueError(
        f"e3: budget={budget} < low*P={low * num_prompts}: raise the budget or "
        "lower low"
      )
    return (min(budget, high * num_prompts),)

  def counts(stats: PromptStats, *, round, rows, key) -> jax.Array:
    del round, key
    num_prompts = stats.mean.shape[0]
    rows = jnp.asarray(rows, jnp.int32)
    epochs = jnp.sum(stats.weight) / jnp.maximum(rows, 1).astype(jnp.float32)
    moved = widen * jnp.floor(epochs).astype(jnp.int32)
    n, n_up = rows // num_prompts, -(-rows // num_prompts)
    n_min = jnp.maximum(n - moved, jnp.minimum(low, n))
    n_max = jnp.minimum(n_up + moved, jnp.maximum(high, n_up))
    return by_rank(ranks(stats.mean), rows, n_min, n_max)

  return Allocator(rounds=rounds, counts=counts)


def ranks(mean: jax.Array) -> jax.Array:
  """Position by mean reward, best first, as a share.

  Args:
    mean: f32[P], 0 where nothing is known; equal ones keep their order.

  Returns:
    f32[P] in [0, 1): 0 the easiest, (P - 1)/P the hardest.

  Example:
    >>> ranks(jnp.array([1.0, 0.0, 0.5, 0.0])).tolist()
    [0.0, 0.5, 0.25, 0.75]
  """
  return numerics.rank_by(mean).astype(jnp.float32) / mean.shape[0]


def by_rank(rank: jax.Array, total, n_min, n_max) -> jax.Array:
  """The budget in proportion to rank, above a least number.

  Args:
    rank: f32[P] >= 0; where all are 0 the remainder is everything.
    total: i32[], rollouts to give out, >= P n_min; may be traced.
    n_min: i32[], the least of each, may be traced.
    n_max: i32[], what the remainder fills up to, may be traced.

  Returns:
    i32[P] >= n_min that sums to `total`, or less where n_max leaves no room
    for the remainder.

  Example:
    >>> by_rank(jnp.array([0.0, 0.25, 0.5, 0.75]), 32, 4, 12).tolist()
    [4, 6, 10, 12]
  """
  total, n_min, n_max = (
    jnp.asarray(x, jnp.int32) for x in (total, n_min, n_max)
  )
  share = numerics.safe_divide(rank, jnp.sum(rank))
  spare = total - rank.shape[0] * n_min
  # What is whole must not be rounded down by a floating-point error.
  more = jnp.floor(share * spare.astype(jnp.float32) + 1e-4)
  counts = n_min + more.astype(jnp.int32)
  room = jnp.maximum(n_max - counts, 0)
  # Filled one after the other, the highest rank first.
  place = numerics.rank_by(rank)
  room = jnp.zeros_like(room).at[place].set(room, unique_indices=True)
  left = total - jnp.sum(counts)
  filled = jnp.clip(left - (jnp.cumsum(room) - room), 0, room)
  return counts + filled[place]
