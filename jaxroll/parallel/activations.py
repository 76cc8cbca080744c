"""Where do activations lie? On the mesh in context, which a model can ask for.

A model never takes a mesh. It says `constrain(x, ROW_AXES, None, None)`, which
does nothing without a mesh in context, so that it is the same model on one
device; `bound` gives it the context, and so does `jax.set_mesh`. Inside
`jax.shard_map` the axes that the caller has split are gone, and what is said of
them is not heard.
"""

import contextlib
import functools
import math

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroll import types
from jaxroll.parallel.mesh import ROW_AXES, row_shards


def bound(policy: types.Policy, mesh: Mesh | None) -> types.Policy:
  """The policy with a mesh in the context of its functions.

  Args:
    policy: types.Policy.
    mesh: None leaves it as it is; so does a mesh already in the context.

  Returns:
    types.Policy.
  """
  if mesh is None:
    return policy

  def within(function):
    @functools.wraps(function)
    def call(*args, **options):
      with _context(mesh):
        return function(*args, **options)

    return call

  return types.Policy(*(None if f is None else within(f) for f in policy))


def _context(mesh):
  if not jax.sharding.get_abstract_mesh().empty:
    return contextlib.nullcontext()
  return jax.sharding.use_abstract_mesh(mesh.abstract_mesh)


def free_axes() -> dict[str, int]:
  """Axes of the mesh in context that are left to the compiler, with sizes.

  Returns:
    Sizes by name; empty without a mesh in context.
  """
  mesh = jax.sharding.get_abstract_mesh()
  return {axis: mesh.shape[axis] for axis in mesh.auto_axes}


def constrain(x, *axes):
  """Lays an array out over the mesh in context.

  Args:
    x: an array.
    axes: for each dimension the axis, the axes or None for none. Axes that are
      not free count as none; a dimension that they do not divide is left to the
      compiler.

  Returns:
    The same array.
  """
  free = free_axes()

  def one(names, size):
    names = (names,) if isinstance(names, str) else names or ()
    kept = tuple(name for name in names if free.get(name, 1) > 1)
    if not kept:
      return None
    divides = not size % math.prod(free[name] for name in kept)
    return kept if divides else PartitionSpec.UNCONSTRAINED

  if all(size == 1 for size in free.values()):
    return x
  axes = axes + (None,) * (x.ndim - len(axes))
  spec = PartitionSpec(*map(one, axes, x.shape))
  return jax.lax.with_sharding_constraint(x, spec)


def rows(tree, mesh: Mesh | None):
  """Constrains arrays with a leading row axis to lie over `data` x `fsdp`.

  Args:
    tree: pytree of arrays [B, ...]; a B that the shards do not divide is left
      to the compiler, see `check`.
    mesh: None does nothing.

  Returns:
    The same tree.
  """
  if mesh is None:
    return tree
  shards = row_shards(mesh)
  where = NamedSharding(mesh, PartitionSpec(ROW_AXES))

  def one(x):
    if x.shape[0] % shards:
      return x
    return jax.lax.with_sharding_constraint(x, where)

  return jax.tree.map(one, tree)


def spread(work, shards: int) -> jax.Array:
  """An order of rows in which equal blocks have almost equal work.

  Rows are sorted by work and dealt like cards, forth and back, so that the sums
  of two blocks differ by at most the difference of the largest and the smallest
  row: a block's lead in one round, and its arrears in the next, telescope.
  Equal rows keep their order, so that a group of them is split over all.

  Args:
    work: [B], expected of each row; the shards divide B.
    shards: n, blocks.

  Returns:
    i32[B], rows by place; block s is [s * B/n, (s+1) * B/n).

  Example:
    >>> spread(jnp.array([1, 5, 2, 4]), 2).tolist()
    [1, 0, 3, 2]
  """
  order = jnp.argsort(-work, stable=True).astype(jnp.int32)
  rounds = order.reshape(-1, shards)
  rounds = rounds.at[1::2].set(rounds[1::2, ::-1])
  return rounds.T.reshape(-1)
