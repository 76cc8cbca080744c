"""On which devices? A mesh with named axes, and who lies where on it."""

import math
import re

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXES = ("data", "fsdp", "tensor")
ROW_AXES = ("data", "fsdp")

# Path of a parameter -> its spec; the first pattern found in the path decides,
# and what no pattern is found in is whole on every device.
# Stacked layers have a leading axis that is never split. Optimiser states hold
# copies of the parameter tree, so their paths end alike and one table serves.
RULES = (
  (r"embed/embedding$", PartitionSpec("tensor", "fsdp")),
  (r"head/kernel$", PartitionSpec("fsdp", "tensor")),
  (r"layers/(q|k|v|gate|up)/kernel$", PartitionSpec(None, "fsdp", "tensor")),
  (r"layers/(o|down)/kernel$", PartitionSpec(None, "tensor", "fsdp")),
  (r"layers/(q|k|v)/bias$", PartitionSpec(None, "tensor")),
  (r"experts/(gate|up)$", PartitionSpec(None, None, "fsdp", "tensor")),
  (r"experts/down$", PartitionSpec(None, None, "tensor", "fsdp")),
  (r"(^|/)stats/", PartitionSpec("data")),
)


def make_mesh(
  data: int = -1, fsdp: int = 1, tensor: int = 1, *, devices=None
) -> Mesh:
  """A mesh with the axes `data`, `fsdp` and `tensor`.

  Args:
    data, fsdp, tensor: sizes; at most one is -1 and takes what is left.
    devices: default all of `jax.devices()`.

  Returns:
    A `jax.sharding.Mesh`.

  Raises:
    ValueError: where the sizes do not multiply to the number of devices.
  """
  devices = jax.devices() if devices is None else list(devices)
  sizes = [data, fsdp, tensor]
  shown = dict(zip(AXES, sizes))
  if sizes.count(-1) > 1 or any(s < 1 and s != -1 for s in sizes):
    raise ValueError(f"mesh {shown}: sizes are >= 1, and at most one is -1")
  known = math.prod(s for s in sizes if s != -1)
  if -1 in sizes:
    sizes[sizes.index(-1)] = len(devices) // known
  if math.prod(sizes) != len(devices):
    divisors = [d for d in range(1, len(devices) + 1) if not len(devices) % d]
    raise ValueError(
      f"mesh {shown} does not divide {len(devices)} devices: the sizes must "
      f"multiply to {len(devices)} (each one of {divisors})"
    )
  return jax.make_mesh(
    tuple(sizes),
    AXES,
    axis_types=(jax.sharding.AxisType.Auto,) * len(AXES),
    devices=devices,
  )


def spec_for(path: str, shape, mesh: Mesh, rules=RULES) -> PartitionSpec:
  """The spec of one leaf; an axis that does not divide its dimension is whole.

  Args:
    path: keys joined by "/".
    shape: the leaf's.
    mesh: whose axes the rules name.
    rules: (pattern, PartitionSpec) pairs, the first match decides.

  Returns:
    A PartitionSpec not longer than the shape, without axes of size 1.
  """
  found = (spec for pattern, spec in rules if re.search(pattern, path))
  spec = next(found, PartitionSpec())
  if len(spec) > len(shape):
    return PartitionSpec()

  def shards(axis):
    names = (axis,) if isinstance(axis, str) else axis or ()
    return math.prod(mesh.shape[name] for name in names)

  # An axis of size 1 splits nothing; named or not, it is another sharding to
  # jit, which would compile a step again for its own output.
  fits = [
    axis if shards(axis) > 1 and not size % shards(axis) else None
    for axis, size in zip(spec, shape)
  ]
  while fits and fits[-1] is None:
    fits.pop()
  return PartitionSpec(*fits)


def shardings(tree, mesh: Mesh, rules=RULES):
  """The NamedSharding of every leaf of a state, by the rule table.

  Args:
    tree: a pytree of arrays or of their shapes (TrainState, params ...).
    mesh: the mesh.
    rules: see `spec_for`.

  Returns:
    The same tree with NamedShardings for leaves.
  """

  def one(path, leaf):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    return NamedSharding(mesh, spec_for(name, leaf.shape, mesh, rules))

  return jax.tree_util.tree_map_with_path(one, tree)


def rows(tree, mesh: Mesh | None):
  """Constrains arrays with a leading row axis to lie over `data` x `fsdp`.

  Args:
    tree: pytree of arrays [B, ...]; a B that the shards do not divide is left
      to the compiler.
    mesh: None does nothing.

  Returns:
    The same tree.
  """
  if mesh is None:
    return tree
  shards = math.prod(mesh.shape[axis] for axis in ROW_AXES)
  where = NamedSharding(mesh, PartitionSpec(ROW_AXES))

  def one(x):
    if x.shape[0] % shards:
      return x
    return jax.lax.with_sharding_constraint(x, where)

  return jax.tree.map(one, tree)
