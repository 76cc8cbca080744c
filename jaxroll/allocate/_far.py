"""Which groups need further attempts before they say anything?

Every prompt gets n attempts. A group with a right and a wrong attempt is ready
and one that is always right is easy: neither gets more. One that is always
wrong gets chunks of attempts until it has n_max, and is hard then:

  more_i = min(chunk, n_max - n_i)  if all r = 0 and n_i < n_max,  else 0

Factorized Adaptive Rollout of SimpleSearch-VL (2026), arXiv:2606.31504.
"""

import jax
import jax.numpy as jnp

from jaxroll.allocate._stages import chunks, stages
from jaxroll.types import Allocator, Tally

# What is known of a group.
WAIT, MORE, READY, EASY, HARD = range(5)


def far(*, n: int = 8, most: int = 16, chunk: int = 4) -> Allocator:
  """Extra attempts, chunk by chunk, for the groups that are all wrong.

  Args:
    n: attempts of every prompt, >= 1.
    most: n_max, attempts of a prompt in all, >= n.
    chunk: further attempts at a time, >= 1.

  Returns:
    An `Allocator` of 1 + ceil((most - n) / chunk) rounds, fewer where the
    budget ends before.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover the first pass.

  Example:
    >>> far(n=4, most=8, chunk=2).rounds(32, 4)
    (16, 8, 8)

  Note:
    The sizes are derived here: the source does not state them. A step has a
    fixed number of prompts and ends when all of its rows have: of the paper's
    two factors only the one within a group acts in it. The other one is
    `expand_prompts`, and collecting without the slowest attempts `quorum`, for
    loops that start prompts one by one.

  Reference:
    SimpleSearch-VL, 2026, arXiv:2606.31504.
  """
  if not 1 <= n <= most:
    raise ValueError(f"far: n={n}, most={most} must have 1 <= n <= most")
  if chunk < 1:
    raise ValueError(f"far: chunk={chunk} must be >= 1")

  def want(tally: Tally, given: jax.Array) -> jax.Array:
    known = status(tally, given, n=n, most=most)
    return next_attempts(known, given, n=n, most=most, chunk=chunk)

  return stages("far", chunks(n, chunk, most), want)


def status(tally: Tally, given: jax.Array, *, n: int, most: int) -> jax.Array:
  """What is known of each group.

  Args:
    tally: Tally[P] of the attempts so far; rewards >= 0, and equal positive
      ones are easy.
    given: i32[P], attempts so far.
    n: attempts of every prompt.
    most: attempts of a prompt in all.

  Returns:
    i32[P]: WAIT below n attempts, READY with unequal rewards, EASY if all are
    positive, HARD if all are 0 after `most` attempts, else MORE.

  Example:
    >>> from jaxroll import posterior
    >>> tally, given = posterior.tally_init(3), jnp.array([3, 8, 16])
    >>> status(tally, given, n=8, most=16).tolist() == [WAIT, MORE, HARD]
    True
  """
  wrong = jnp.where(given >= most, HARD, MORE)
  right = jnp.where(tally.mean > 0, EASY, wrong)
  scored = jnp.where(tally.m2 > 0, READY, right)
  return jnp.where(given < n, WAIT, scored).astype(jnp.int32)


def next_attempts(
  status: jax.Array, given: jax.Array, *, n: int, most: int, chunk: int
) -> jax.Array:
  """Attempts that each group gets next.

  Args:
    status: i32[P] of `status`.
    given: i32[P], attempts so far.
    n, most, chunk: as for `far`.

  Returns:
    i32[P]: what lacks to n while it waits, a chunk for MORE, else 0.

  Example:
    >>> next_attempts(jnp.array([WAIT, MORE, READY]), jnp.array([3, 14, 8]),
    ...               n=8, most=16, chunk=4).tolist()
    [5, 2, 0]
  """
  more = jnp.where(status == MORE, jnp.clip(most - given, 0, chunk), 0)
  return jnp.where(status == WAIT, jnp.maximum(n - given, 0), more)


def expand_prompts(
  ready: int, target: int, pending: int, rate: float, cap: int
) -> int:
  """Further prompts to start so that enough groups become ready.

    clip(ceil((target - ready - pending rate) / rate), 0, cap)

  Args:
    ready: groups that are ready.
    target: ready groups wanted.
    pending: groups under way.
    rate: share of the groups that become ready, in [0, 1]; with 0 nothing can
      be foreseen and the answer is the cap.
    cap: most prompts to start.

  Returns:
    A number in [0, cap].

  Example:
    >>> expand_prompts(20, 32, 4, 0.5, 64)
    20
  """
  lacking = target - ready - pending * rate
  if lacking <= 0:
    return 0
  # Compared before dividing: a tiny rate must not overflow.
  if lacking >= cap * rate:
    return cap
  return min(cap, -int(-(lacking - 1e-9) // rate))


def quorum(done: int, started: int, share: float = 0.99) -> bool:
  """Whether enough attempts have ended to go on without the others.

    done >= ceil(share started)

  Args:
    done: attempts that have ended.
    started: attempts that were started.
    share: in (0, 1]; below 1 / (1 - share) attempts it asks for all of them.

  Returns:
    A bool.

  Example:
    >>> quorum(99, 100), quorum(98, 100), quorum(63, 64)
    (True, False, False)
  """
  return done >= share * started - 1e-9
