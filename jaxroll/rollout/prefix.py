"""What is computed once for many rows? Contexts, prefilled into a table.

A slot that takes a row copies the row's context from the table into its own
first columns: once a row, never once a token.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxroll import types


class Table(NamedTuple):
  """Prefilled contexts.

  Attributes:
    cache: Cache of X rows and S columns.
    hidden: f[X, D], of each context's last token.
    length: i32[X].
  """

  cache: types.Cache
  hidden: chex.Array
  length: chex.Array


def prefill(policy: types.Policy, params, contexts: types.Contexts) -> Table:
  """Runs every context through the model once.

  Args:
    policy: types.Policy.
    params: as `policy.prepare` gives them.
    contexts: X contexts of up to S tokens.

  Returns:
    A `Table` of X rows.
  """
  rows, columns = contexts.tokens.shape
  at = jnp.arange(columns, dtype=jnp.int32)[None, :]
  positions = jnp.where(at < contexts.length[:, None], at, types.EMPTY)
  cache = policy.init_cache(rows, columns)
  hidden, cache = policy.apply(
    params, contexts.tokens, positions, cache, jnp.int32(0)
  )
  last = jnp.take_along_axis(
    hidden, contexts.length[:, None, None] - 1, axis=1
  )[:, 0]
  return Table(cache, last, contexts.length)


def copy(cache: types.Cache, table: Table, taken, context):
  """Copies contexts into the slots that took a row, one slot at a time.

  A loop over the slots that need it, not a select over all: its cost is the
  prefixes really copied, and the cache is updated in place.

  Args:
    cache: of W slots; its first S columns are the prefix.
    table: X contexts of S columns.
    taken: bool[W], slots that need a prefix.
    context: i32[W], which.

  Returns:
    keys, values: the cache's, one array a layer.
  """

  def one_slot(carry):
    left, keys, values = carry
    slot = jnp.argmax(left)
    at = (slot, 0, 0, 0)

    def put(into, source):
      piece = jax.lax.dynamic_slice_in_dim(source, context[slot], 1, axis=0)
      return jax.lax.dynamic_update_slice(into, piece, at)

    keys = jax.tree.map(put, keys, table.cache.keys)
    values = jax.tree.map(put, values, table.cache.values)
    return left.at[slot].set(False), keys, values

  _, keys, values = jax.lax.while_loop(
    lambda carry: jnp.any(carry[0]), one_slot, (taken, cache.keys, cache.values)
  )
  return keys, values
