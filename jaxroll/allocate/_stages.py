"""How are rollouts drawn in stages, each for the prompts that still want some?

  round 0       each_0 rows for every prompt
  round r > 0   want_i(tally, rows so far) rows for prompt i, <= each_r

The static plan of round r is P each_r rows, cut where the budget ends. Rows
that nobody wants are not spent: that is what the step saves. Where a cut round
has fewer rows than are wanted, all wants shrink in proportion (largest
remainder; of equal ones the lower place is rounded up).
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from jaxroll import apportion
from jaxroll.types import Allocator, Tally


def stages(name: str, each: tuple[int, ...], want: Callable) -> Allocator:
  """An allocator of one first pass and further rows where they are wanted.

  Args:
    name: of the method, for messages.
    each: most rows of a prompt in each round, >= 1 each.
    want: (tally, given i32[P]) -> i32[P], rows that each prompt wants next;
      `given` are its rows so far. A want above that of the round is cut.

  Returns:
    An `Allocator` of at most len(each) rounds. Empty prompts, which the caller
    gave none of their first rows, get none later.

  Raises:
    ValueError: from `rounds`, where the budget does not cover the first pass
      and, where others follow, one row more.

  Example:
    >>> stages("two", (4, 2), lambda tally, given: given).rounds(20, 4)
    (16, 4)
  """

  def rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
    needed = num_prompts * each[0] + (len(each) > 1)
    if budget < needed:
      raise ValueError(
        f"{name} needs at least {needed} rows for P={num_prompts} prompts with "
        f"{each[0]} each in the first of {len(each)} rounds and has "
        f"budget={budget}: raise the budget or lower the first round"
      )
    plan, left = [], budget
    for rows in each:
      plan.append(min(num_prompts * rows, left))
      left -= plan[-1]
    return tuple(rows for rows in plan if rows > 0)

  def counts(tally: Tally, counts: jax.Array, *, round, rows, key) -> jax.Array:
    del key
    chex.assert_equal_shape([tally.count, counts])
    most = jnp.asarray(each, jnp.int32)[round]
    later = jnp.where(counts > 0, want(tally, counts), 0)
    first = jnp.asarray(round, jnp.int32) == 0
    wanted = jnp.where(first, most, jnp.clip(later, 0, most))
    # All that is wanted where `rows` suffice, else shrunk in proportion.
    return apportion.largest_remainder(
      wanted.astype(jnp.float32), rows, available=wanted
    )

  return Allocator(rounds=rounds, counts=counts)


def chunks(first: int, chunk: int, most: int) -> tuple[int, ...]:
  """`first` rows, then chunks until there are `most`; the last may be less.

  Args:
    first, chunk: rows, >= 1.
    most: rows in all, >= first.

  Returns:
    Rows of each round, which sum to `most`.

  Example:
    >>> chunks(8, 3, 16)
    (8, 3, 3, 2)
  """
  later = range(first, most, chunk)
  return (first, *(min(chunk, most - have) for have in later))
