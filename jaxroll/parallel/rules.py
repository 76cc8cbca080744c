"""Who lies where on a mesh? One table: parameter path -> PartitionSpec."""

import math
import re

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# Path of a parameter -> its spec; the first pattern found in the path decides,
# and what no pattern is found in is whole on every device.
# Stacked layers have a leading axis that is never split. Optimiser states hold
# copies of the parameter tree, so their paths end alike and one table serves.
# Columns of a projection are split over `tensor` where it leads into heads or
# feed-forward width, rows where it leads back, so that one sum is needed for
# two of them; an adapter's sides are split as its kernel's.
RULES = (
  (r"embed/embedding$", PartitionSpec("tensor", "fsdp")),
  (r"head/kernel$", PartitionSpec("fsdp", "tensor")),
  (r"layers/(q|k|v|gate|up)/kernel$", PartitionSpec(None, "fsdp", "tensor")),
  (r"layers/(o|down)/kernel$", PartitionSpec(None, "tensor", "fsdp")),
  (r"layers/(q|k|v)/bias$", PartitionSpec(None, "tensor")),
  (r"layers/o/bias$", PartitionSpec()),
  (r"layers/(q|k|v|gate|up)/lora_a$", PartitionSpec(None, "fsdp")),
  (r"layers/(q|k|v|gate|up)/lora_b$", PartitionSpec(None, None, "tensor")),
  (r"layers/(o|down)/lora_a$", PartitionSpec(None, "tensor")),
  (r"layers/(o|down)/lora_b$", PartitionSpec(None, None, "fsdp")),
  (r"experts/(gate|up)$", PartitionSpec(None, "expert", "fsdp", "tensor")),
  (r"experts/down$", PartitionSpec(None, "expert", "tensor", "fsdp")),
  # Every device routes its own tokens.
  (r"experts/router/(kernel|lora_a|lora_b)$", PartitionSpec()),
  (r"norm/scale$", PartitionSpec()),
  (r"(^|/)stats/", PartitionSpec("data")),
)


def spec_for(path: str, shape, mesh: Mesh, rules=RULES) -> PartitionSpec:
  """The spec of one leaf; an axis that does not divide its dimension is whole.

  Args:
    path: keys joined by "/".
    shape: the leaf's.
    mesh: an axis that it has not is one of size 1.
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
    return math.prod(mesh.shape.get(name, 1) for name in names)

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
