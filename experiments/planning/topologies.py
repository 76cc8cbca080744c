"""Which devices, and what can they do? TPUs that are not there, or the CPU's.

libtpu compiles for a TPU on any machine. It stands in a folder of its own,
beside the environment and not in it: where it is installed jax would look for
a TPU.
"""

import contextlib
import functools
import importlib.util
import itertools
import math
import os
import pathlib
import re
import sys
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import topologies

from jaxroll import parallel
from jaxroll.models import smollm2
from jaxroll.parallel import chips

LIBTPU = "libtpu==0.0.42.*"
_LARGEST_V5E = 256


class Topology(NamedTuple):
  """Devices to compile for and what each can do.

  Attributes:
    name: as it was given. devices: in any order. chip: peaks of one device.
    measured: the peaks are this machine's, not public figures.
  """

  name: str
  devices: tuple
  chip: chips.Chip
  measured: bool = False


def libtpu_folder(folder: str | None = None) -> pathlib.Path:
  """Where libtpu stands: `folder`, or "libtpu" in the cache folder."""
  return pathlib.Path(folder) if folder else smollm2.cache_folder() / "libtpu"


def describe(name: str, folder: str | None = None) -> Topology:
  """The devices of a topology.

  Args:
    name: "cpu:8", or a TPU and its torus, "v5e:8x8" or "v5p:2x2x4".
    folder: of libtpu; None takes the cache folder's.

  Returns:
    The `Topology`.

  Raises:
    ValueError: for a name that says no topology, or without libtpu.
  """
  found = re.fullmatch(r"(\w+):(\d+(?:x\d+)*)", name)
  kind = found[1] if found else None
  if kind not in ("cpu", *chips.TPUS):
    raise ValueError(
      f"--topology={name}: write cpu:DEVICES, or one of "
      f"{', '.join(chips.TPUS)} with its torus, as v5e:8x8 or v5p:2x2x4"
    )
  sizes = [int(n) for n in found[2].split("x")]
  dims = 1 if kind == "cpu" else chips.TPUS[kind].dims
  if len(sizes) != dims or min(sizes) < 1:
    raise ValueError(
      f"--topology={name}: {kind} needs {dims} sizes >= 1, as "
      f"{kind}:{'x'.join(['4'] * dims)}"
    )
  if kind == "cpu":
    return _cpu(name, sizes[0])
  if kind == "v5e" and math.prod(sizes) > _LARGEST_V5E:
    raise ValueError(f"--topology={name}: v5e has up to 16x16 chips")
  return _tpu(name, chips.TPUS[kind], folder)


def _tpu(name, chip, folder):
  place = libtpu_folder(folder)
  if place.is_dir() and str(place) not in sys.path:
    sys.path.insert(0, str(place))
    importlib.invalidate_caches()
  if importlib.util.find_spec("libtpu") is None:
    raise ValueError(
      f"--topology={name} needs the TPU's compiler, which is not in {place}. "
      f"Install it there: {sys.executable} -m pip install --no-deps "
      f"--target {place} '{LIBTPU}'"
    )
  # There is no TPU whose surroundings could be asked for, or that a second
  # process could want.
  os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
  os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
  try:
    found = topologies.get_topology_desc(
      name, platform="tpu", **dict(chip.options)
    )
  except jax.errors.JaxRuntimeError as error:
    raise ValueError(f"--topology={name}: {error}") from error
  return Topology(name, tuple(found.devices), chip)


def _cpu(name, number):
  # Where the process has virtual devices already they decide.
  with contextlib.suppress(ValueError):
    parallel.virtual_devices(number)
  devices = jax.devices("cpu")
  if len(devices) < number:
    raise ValueError(
      f"--topology={name}: this process has {len(devices)} CPU devices; ask "
      f"for no more, or start with "
      f"XLA_FLAGS=--xla_force_host_platform_device_count={number}"
    )
  return Topology(name, tuple(devices[:number]), measure_cpu(number), True)


@functools.cache
def measure_cpu(devices: int) -> chips.Chip:
  """Peaks of one of several virtual devices, which share this machine.

  Args:
    devices: how many share it.

  Returns:
    `chips.Chip`: float32 products and copies as measured in this process, the
    memory's size, and copies for an interconnect.
  """
  size, numbers = 1024, 2**24
  square = jnp.ones((size, size), jnp.float32)
  flops = 2 * size**3 / _fastest(jax.jit(jnp.matmul), square, square)
  line = jnp.ones((numbers,), jnp.float32)
  hbm = 8 * numbers / _fastest(jax.jit(jnp.negative), line)
  capacity = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
  return chips.Chip(*(n / devices for n in (capacity, flops, hbm, hbm)))


def _fastest(fn, *arguments):
  jax.block_until_ready(fn(*arguments))
  times = []
  for _ in range(5):
    began = time.perf_counter()
    jax.block_until_ready(fn(*arguments))
    times.append(time.perf_counter() - began)
  return min(times)


# --- meshes


def shapes(number: int) -> list[dict[str, int]]:
  """All meshes of data x fsdp x tensor with a number of devices."""
  divisors = [d for d in range(1, number + 1) if not number % d]
  return [
    {"data": data, "fsdp": fsdp, "tensor": number // data // fsdp}
    for data, fsdp in itertools.product(divisors, divisors)
    if not number % (data * fsdp)
  ]


def read_mesh(text: str, devices: int) -> dict[str, int]:
  """Sizes of a mesh's axes.

  Args:
    text: "fsdp:16,tensor:4"; an axis that is not named has size 1.
    devices: what the sizes must multiply to.

  Returns:
    axis -> size, of all axes in the mesh's order.

  Raises:
    ValueError: with the nearest meshes where the sizes do not multiply.

  Example:
    >>> read_mesh("fsdp:16,tensor:4", 64)["tensor"]
    4
  """
  sizes = dict.fromkeys(parallel.AXES, 1)
  for part in text.split(","):
    found = re.fullmatch(r"(\w+):(\d+)", part)
    known = found and found[1] in sizes and sizes[found[1]] == 1
    if not known or int(found[2]) < 1:
      raise ValueError(
        f"--mesh={text}: write AXIS:SIZE,... with sizes >= 1 and, once each, "
        f"axes of {', '.join(sizes)}"
      )
    sizes[found[1]] = int(found[2])
  if math.prod(sizes.values()) != devices:

    def far(other):
      return sum(abs(math.log(n / sizes[axis])) for axis, n in other.items())

    near = " or ".join(map(show, sorted(shapes(devices), key=far)[:3]))
    raise ValueError(
      f"--mesh={text} has {math.prod(sizes.values())} devices, the topology "
      f"{devices}: try {near}"
    )
  return sizes


def show(sizes: dict[str, int]) -> str:
  """A mesh as `read_mesh` reads it, without axes of size 1."""
  parts = [f"{axis}:{size}" for axis, size in sizes.items() if size > 1]
  return ",".join(parts) or "data:1"
