"""What is a row's place within its group, and its number of a token column?"""

import chex
import jax.numpy as jnp

from jaxroll import numerics


def place(
  group: chex.Array, num_groups: int, where: chex.Array, *keys: chex.Array
) -> chex.Array:
  """Rank of each row within its group.

  First key descending, then the second ..., then the row's own place in the
  batch.

  Args:
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.
    where: bool[B], rows that are ranked.
    *keys: [B] each; finite where ranked, any value at all elsewhere.

  Returns:
    i32[B], 0, 1, ... within each group; B, which no rank reaches, for rows
    that are not ranked.

  Example:
    >>> group, where = jnp.array([1, 0, 1, 1]), jnp.array([1, 1, 1, 0], bool)
    >>> place(group, 2, where, jnp.array([0.1, 0.2, 0.3, 0.4])).tolist()
    [1, 0, 0, 4]
  """
  chex.assert_equal_shape([group, where, *keys])
  bins = jnp.where(where, group, num_groups).astype(jnp.int32)
  keys = [jnp.where(where, key, jnp.zeros_like(key)) for key in keys]
  # All of a group stand together, the rows that are not ranked at the end.
  rank = numerics.rank_by(-bins, *keys)
  count = numerics.group_count(group, num_groups, where)
  first = jnp.cumsum(count) - count
  return jnp.where(where, rank - first[group], group.shape[0])


def by_row(x: chex.Array, mask: chex.Array) -> chex.Array:
  """A column of rows as it is, one of tokens by its mean over trained tokens.

  Args:
    x: [B] or [B, T]; unread where `mask` is False.
    mask: bool[B, T], trained tokens.

  Returns:
    f32[B], 0 for a row of a token column without trained tokens.

  Example:
    >>> mask = jnp.array([[True, True], [True, False]])
    >>> by_row(jnp.array([[1.0, 2.0], [3.0, 4.0]]), mask).tolist()
    [1.5, 3.0]
  """
  if x.ndim == 1:
    return x.astype(jnp.float32)
  return numerics.masked_mean(x, mask, axis=1)
