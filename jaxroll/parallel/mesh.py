"""On which devices? A mesh with named axes, and sizes that it divides.

data    rows; parameters are whole
fsdp    rows; parameters are split too, and gathered where they are used
tensor  heads, feed-forward columns, vocabulary
expert  experts of a layer; without experts it splits nothing
"""

import math
from collections.abc import Mapping

import jax
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh

AXES = ("data", "fsdp", "tensor", "expert")
ROW_AXES = ("data", "fsdp")

_SHOWN = 3  # meshes that an error names


def make_mesh(
  data: int = -1,
  fsdp: int = 1,
  tensor: int = 1,
  *,
  expert: int = 1,
  devices=None,
) -> Mesh:
  """A mesh with the axes `data`, `fsdp`, `tensor` and `expert`.

  Args:
    data, fsdp, tensor, expert: sizes; at most one is -1 and takes what is left.
    devices: default all of `jax.devices()`.

  Returns:
    A `jax.sharding.Mesh`.

  Raises:
    ValueError: where the sizes do not multiply to the number of devices; names
      the nearest that do.

  Example:
    >>> make_mesh(data=2, fsdp=2, tensor=2).size
    8
  """
  devices = jax.devices() if devices is None else list(devices)
  sizes = [data, fsdp, tensor, expert]
  shown = dict(zip(AXES, sizes))
  if sizes.count(-1) > 1 or any(s < 1 and s != -1 for s in sizes):
    raise ValueError(f"mesh {shown}: sizes are >= 1, and at most one is -1")
  known = math.prod(s for s in sizes if s != -1)
  made = [len(devices) // known if s == -1 else s for s in sizes]
  if math.prod(made) != len(devices):
    raise ValueError(
      f"mesh {shown} does not divide {len(devices)} devices: the sizes must "
      f"multiply to {len(devices)}; nearest: {_nearest(sizes, len(devices))}"
    )
  types = (AxisType.Auto,) * len(AXES)
  try:
    return jax.make_mesh(tuple(made), AXES, axis_types=types, devices=devices)
  except NotImplementedError:
    # No axis of the mesh may be a part of one of the torus, unless it is said.
    where = mesh_utils.create_device_mesh(
      made, devices, allow_split_physical_axes=True
    )
    return Mesh(where, AXES, axis_types=types)


def _nearest(sizes, number: int) -> str:
  """The meshes of so many devices that change the fewest doublings."""

  def factors(left, axes):
    if axes == 1:
      yield (left,)
      return
    for first in range(1, left + 1):
      if not left % first:
        for others in factors(left // first, axes - 1):
          yield (first, *others)

  def distance(made):
    asked = [(a, b) for a, b in zip(made, sizes) if b != -1]
    first = [-size for size in made]  # the larger the axis before the other
    return round(sum(abs(math.log2(a / b)) for a, b in asked), 6), first

  best = sorted(factors(number, len(sizes)), key=distance)[:_SHOWN]
  return "; ".join(
    ", ".join(f"{a}={s}" for a, s in zip(AXES, made) if s > 1) or "data=1"
    for made in best
  )


def row_shards(mesh: Mesh | None) -> int:
  """Over how many shards rows are split: the product of `data` and `fsdp`.

  Args:
    mesh: None is one device.

  Returns:
    The number, >= 1.
  """
  if mesh is None:
    return 1
  return math.prod(mesh.shape.get(axis, 1) for axis in ROW_AXES)


def round_up(size: int, mesh: Mesh | None) -> int:
  """The least multiple of the row shards that is not below `size`.

  Args:
    size: of an axis of rows.
    mesh: None leaves it.

  Returns:
    The multiple.
  """
  shards = row_shards(mesh)
  return -(-size // shards) * shards


def check(mesh: Mesh | None, sizes: Mapping[str, int]) -> None:
  """Refuses sizes that the shards of rows do not divide.

  Not every size must be divided. Where a few empty rows make it so, the result
  is right and costs as little as they do: `rollout.generate` pads rows and
  contexts, `train.update` a micro-batch, and both take slots up to the next
  multiple. What stays here: rows of a scoring pass, of which every device would
  compute all, and the prompts and rows of a step that allocates at the slot,
  where each shard owns an equal part.

  Args:
    mesh: None accepts everything.
    sizes: by name.

  Raises:
    ValueError: naming each with the nearest sizes that the shards divide.

  Example:
    >>> mesh = make_mesh(data=4, tensor=2)
    >>> check(mesh, {"micro_rows": 10})
    Traceback (most recent call last):
    ...
    ValueError: micro_rows=10 cannot be split over 4 shards of rows (data=4 x
    fsdp=1): take micro_rows=8 or 12, or another mesh
  """
  shards = row_shards(mesh)
  wrong = {name: size for name, size in sizes.items() if size % shards}
  if not wrong:
    return
  near = []
  for name, size in wrong.items():
    above = round_up(size, mesh)
    below = f"{above - shards} or " if above > shards else ""
    near.append(f"{name}={below}{above}")
  shape = " x ".join(f"{a}={mesh.shape.get(a, 1)}" for a in ROW_AXES)
  raise ValueError(
    f"{', '.join(f'{name}={size}' for name, size in wrong.items())} cannot be "
    f"split over {shards} shards of rows ({shape}): take {', '.join(near)}, or "
    "another mesh"
  )
