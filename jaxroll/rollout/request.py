"""From counts to rows and back: filling a Request, placing what came of it."""

import jax
import jax.numpy as jnp

from jaxroll import numerics, types


def fill(
  counts,
  used,
  *,
  rows: int,
  step,
  limit,
  first_row=0,
  given_columns: int = 0,
) -> types.Request:
  """The plain request of one round: `counts[p]` rows for each prompt p.

  Args:
    counts: i32[P], new rows of each prompt; sum <= rows.
    used: i32[P], rows each prompt already has: their indices are taken.
    rows: R, static.
    step: i32[], the running step.
    limit: i32[], most tokens after the context.
    first_row: i32[], place in `Rollouts` of the round's first row.
    given_columns: H, room for given tokens (none are given here).

  Returns:
    A `types.Request` of R rows, those of a prompt next to each other.

  >>> new, used = jnp.array([2, 0, 1]), jnp.array([4, 0, 0])
  >>> request = fill(new, used, rows=4, step=0, limit=9)
  >>> request.group.tolist(), request.index.tolist(), request.valid.tolist()
  ([0, 0, 2, 0], [4, 5, 0, 4], [True, True, True, False])
  """
  group, rank, valid = numerics.expand_counts(counts, rows)
  fill_value = jnp.broadcast_to(jnp.asarray(step, jnp.int32), (rows,))
  return types.Request(
    group=group,
    index=used[group] + rank,
    context=group,
    born=fill_value,
    limit=jnp.broadcast_to(jnp.asarray(limit, jnp.int32), (rows,)),
    given=jnp.zeros((rows, given_columns), jnp.int32),
    given_length=jnp.zeros((rows,), jnp.int32),
    row=first_row + jnp.arange(rows, dtype=jnp.int32),
    valid=valid,
  )


def empty(rows: int, max_length: int) -> types.Rollouts:
  """Rollouts without a valid row.

  Args:
    rows: B. max_length: T. Static.

  Returns:
    `types.Rollouts` of zeros.

  >>> empty(2, 3).tokens.tolist()
  [[0, 0, 0], [0, 0, 0]]
  """
  number = jnp.zeros((rows,), jnp.int32)
  wide = jnp.zeros((rows, max_length), jnp.float32)
  return types.Rollouts(
    group=number,
    index=number,
    context=number,
    born=number,
    round=number,
    given_length=number,
    length=number,
    valid=number.astype(bool),
    stopped=number.astype(bool),
    tokens=wide.astype(jnp.int32),
    origin=wide.astype(jnp.int8),
    behaviour_logp=wide,
    entropy=wide,
    mask=wide.astype(bool),
  )


def place(into, part, row, valid):
  """Writes the rows of `part` at `row` of `into`; rows not valid are dropped.

  Args:
    into: pytree of arrays with leading axis B.
    part: the same with leading axis R.
    row: i32[R], places, without repeats among valid rows.
    valid: bool[R].

  Returns:
    `into` with the rows written.

  >>> place(jnp.zeros(3), jnp.ones(2), jnp.array([2, 0]),
  ...       jnp.array([True, False]))
  Array([0., 0., 1.], dtype=float32)
  """

  def put(whole, piece):
    at = jnp.where(valid, row, whole.shape[0])
    return whole.at[at].set(piece, mode="drop")

  return jax.tree.map(put, into, part)
