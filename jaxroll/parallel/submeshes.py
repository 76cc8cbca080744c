"""How do two meshes of different devices share the work, and what lies on both?

`jax.device_put` copies between devices without waiting only where each shard
that is wanted lies as it is on a device of the source; all else goes through
the host, which waits for it. `transfer` first makes these shards, on the
source's own devices.
"""

import functools
import math

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroll.parallel.mesh import ROW_AXES, row_shards

_WHOLE = PartitionSpec()


def split_devices(
  rollout: int, train: int = -1, *, devices=None
) -> tuple[list, list]:
  """Devices for two meshes: the first of them roll out, the others train.

  Args:
    rollout, train: how many; at most one is -1 and takes what is left.
    devices: default all of `jax.devices()`.

  Returns:
    Two lists, for the `devices` of two calls of `make_mesh`.

  Raises:
    ValueError: where a number is below 1, or together they are not all devices.

  Example:
    >>> split_devices(rollout=1, devices=range(4))
    ([0], [1, 2, 3])
  """
  devices = jax.devices() if devices is None else list(devices)
  total, asked = len(devices), {"rollout": rollout, "train": train}
  if rollout == -1 != train:
    rollout = total - train
  elif train == -1 != rollout:
    train = total - rollout
  if min(rollout, train) < 1 or rollout + train != total:
    raise ValueError(
      f"split_devices({asked}) of {total} devices: both are >= 1, at most one "
      f"is -1, and together they are {total}; give `devices` to use fewer"
    )
  return devices[:rollout], devices[rollout:]


def whole(tree, mesh: Mesh):
  """Shardings that leave every leaf whole on every device of a mesh.

  Args:
    tree: any pytree.
    mesh: the mesh.

  Returns:
    The same tree with NamedShardings for leaves.
  """
  return jax.tree.map(lambda _: NamedSharding(mesh, _WHOLE), tree)


def row_shardings(tree, mesh: Mesh):
  """Shardings that split leading row axes over `data` and `fsdp`.

  Args:
    tree: pytree of arrays [B, ...] or of their shapes.
    mesh: the mesh; a B that its shards do not divide stays whole.

  Returns:
    The same tree with NamedShardings for leaves.
  """
  axes = tuple(axis for axis in ROW_AXES if mesh.shape.get(axis, 1) > 1)
  shards = row_shards(mesh)

  def one(x):
    splits = axes and not x.shape[0] % shards
    return NamedSharding(mesh, PartitionSpec(axes) if splits else _WHOLE)

  return jax.tree.map(one, tree)


def transfer(tree, shardings):
  """Copies arrays to other devices without waiting for them.

  Args:
    tree: pytree of `jax.Array`s, on any devices of this process.
    shardings: the same tree with NamedShardings for leaves.

  Returns:
    The same tree, lying as asked. The arrays given stay as they are and may be
    donated at once.

  Note:
    Until it is copied, an array takes room on its own devices for a shard of
    the size that is wanted; where the number of shards does not divide the
    number of source devices, it is whole on all devices for a moment.
  """
  leaves, structure = jax.tree.flatten(tree)
  targets = structure.flatten_up_to(shardings)
  routes = [_route(x.sharding, to, x.shape) for x, to in zip(leaves, targets)]
  ready = _reshard(leaves, [before for before, _ in routes])
  landed = jax.device_put(ready, [landing for _, landing in routes])
  there = [
    None if landing == to else to for (_, landing), to in zip(routes, targets)
  ]
  return structure.unflatten(_reshard(landed, there))


@functools.cache
def _route(source, target: NamedSharding, shape):
  """Shardings on the way: at the source (None: as it lies), where it lands."""
  wanted = _shards(target, shape)
  if source.num_devices == 1 or wanted <= _shards(source, shape):
    return None, target
  devices = source.mesh.devices.flatten()
  split = _axes(target.spec)
  axes = [axis for axis in target.mesh.axis_names if axis in split]
  sizes = [target.mesh.shape[axis] for axis in axes]
  parts = math.prod(sizes)
  if devices.size % parts:
    return NamedSharding(source.mesh, _WHOLE), NamedSharding(
      target.mesh, _WHOLE
    )
  # The target's shards on the source's devices, each as often as there is room.
  mesh = Mesh(
    np.reshape(devices, (-1, *sizes)),
    ("copies", *axes),
    axis_types=(jax.sharding.AxisType.Auto,) * (1 + len(axes)),
  )
  return NamedSharding(mesh, target.spec), target


def _shards(sharding, shape) -> set:
  """Which parts of an array lie on some device, as bounds by dimension."""
  parts = sharding.addressable_devices_indices_map(shape).values()
  return {tuple((at.start, at.stop) for at in part) for part in parts}


def _axes(spec: PartitionSpec) -> set[str]:
  """Names of the mesh axes that a spec splits by."""
  entries = ((part,) if isinstance(part, str) else part or () for part in spec)
  return {name for entry in entries for name in entry}


def _reshard(leaves: list, shardings: list) -> list:
  """The leaves that have a sharding, put there among their own devices."""
  places = [place for place, to in enumerate(shardings) if to is not None]
  if not places:
    return leaves
  moved = _resharding(tuple(shardings[place] for place in places))(
    tuple(leaves[place] for place in places)
  )
  leaves = list(leaves)
  for place, leaf in zip(places, moved):
    leaves[place] = leaf
  return leaves


@functools.lru_cache(maxsize=64)
def _resharding(shardings: tuple):
  return jax.jit(lambda leaves: leaves, out_shardings=shardings)
