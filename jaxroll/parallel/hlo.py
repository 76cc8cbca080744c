"""What does a compiled program consist of? Its optimised HLO text, parsed.

`jax.stages.Compiled.as_text()` lists computations of instructions; loops,
branches and fusions name the computations that they run. This file reads the
text into records; `parallel.costs` adds up what they do.
"""

import functools
import itertools
import math
import re
from typing import NamedTuple

import numpy as np

_BITS = re.compile(r"[a-z]+(\d+)")
_LEAF = re.compile(r"\b([a-z]\w*)\[([\d,<=]*)\](?:\{([^}]*)\})?")
_HEADER = re.compile(r"(ENTRY )?%?([\w.-]+) \(.*\{$")
_START = re.compile(r"\s+(ROOT )?%([\w.-]+) = ")
_CALLED = re.compile(
  r"\b(calls|body|condition|to_apply|branch_computations"
  r"|true_computation|false_computation)=(%[\w.-]+|\{[^}]*\})"
)


class Shape(NamedTuple):
  """One array of an instruction's result.

  Attributes:
    dtype: XLA's name. dims: sizes.
    near: whether it lies in memory on the chip instead of in HBM.
  """

  dtype: str
  dims: tuple[int, ...]
  near: bool = False

  @property
  def size(self) -> int:
    """Elements."""
    return math.prod(self.dims)

  @property
  def nbytes(self) -> int:
    """Bytes, without the padding of tiles."""
    return -(-self.size * bits(self.dtype) // 8)


class Instruction(NamedTuple):
  """One line of a computation.

  Attributes:
    name: without %. shapes: of the result, a tuple's leaves in order.
    opcode: XLA's. operands: names. text: what stands behind the operands.
    inner: what stands between the operands' parentheses. root: it is the
      computation's result.
  """

  name: str
  shapes: tuple[Shape, ...]
  opcode: str
  operands: tuple[str, ...]
  text: str
  inner: str
  root: bool

  def called(self, *kinds: str) -> list[str]:
    """Names of the computations that it runs, by kind ("body" ...)."""
    found = []
    for kind, names in _CALLED.findall(self.text):
      if kind in kinds:
        found += re.findall(r"%([\w.-]+)", names)
    return found

  def number(self, name: str) -> int | None:
    """An attribute that is a whole number, None where there is none."""
    found = re.search(rf'\b{name}="?(\d+)', self.text)
    return int(found[1]) if found else None


class Module(NamedTuple):
  """Instructions of every computation, by name, and the first one's name."""

  computations: dict[str, dict[str, Instruction]]
  entry: str


def bits(dtype: str) -> int:
  """Bits of an element; 0 for what is no data (tokens)."""
  if dtype == "pred":
    return 8
  found = _BITS.match(dtype)
  return int(found[1]) if found else 0


def parse(text: str) -> Module:
  """Reads a module.

  Args:
    text: of `Compiled.as_text()`.

  Returns:
    The `Module`.

  Raises:
    ValueError: where the text holds no entry computation.
  """
  computations, current, entry = {}, None, None
  for line in text.splitlines():
    header = _HEADER.match(line)
    if header:
      current = computations[header[2]] = {}
      entry = header[2] if header[1] else entry
      continue
    instruction = current is not None and _instruction(line)
    if instruction:
      current[instruction.name] = instruction
  if entry is None:
    raise ValueError(
      f"no ENTRY computation in a text of {len(text)} characters: give the "
      "optimised HLO of jax.stages.Compiled.as_text()"
    )
  return Module(computations, entry)


def _instruction(line):
  line = re.sub(r"/\*.*?\*/", "", line)
  start = _START.match(line)
  if not start:
    return None
  at = start.end()
  end = _closing(line, at) + 1 if line[at] == "(" else line.index(" ", at)
  result, rest = line[at:end], line[end:].lstrip()
  opcode, _, rest = rest.partition("(")
  close = _closing("(" + rest, 0)
  inner, text = rest[: close - 1], rest[close:]
  shapes = tuple(
    Shape(
      dtype,
      tuple(int(n.strip("<=")) for n in dims.split(",") if n),
      bool(re.search(r"S\([1-9]", layout or "")),
    )
    for dtype, dims, layout in _LEAF.findall(result)
  )
  operands = tuple(re.findall(r"%([\w.-]+)", inner))
  return Instruction(
    start[2], shapes, opcode, operands, text, inner, bool(start[1])
  )


def _closing(text, at):
  """Where the parenthesis that opens at `at` closes."""
  depth = 0
  for place in range(at, len(text)):
    depth += (text[place] == "(") - (text[place] == ")")
    if not depth:
      return place
  raise ValueError(f"a parenthesis does not close: {text[at : at + 80]}")


def root(computation: dict[str, Instruction]) -> Instruction:
  """The result of a computation."""
  return next(i for i in computation.values() if i.root)


def trip_count(module: Module, loop: Instruction) -> int | None:
  """How often a `while` runs.

  XLA's own annotation, else the bound of a condition `i < n` on a counter that
  begins at 0, as scans and maps have; None where it depends on data.

  Args:
    module: whose loop it is.
    loop: the `while` instruction.

  Returns:
    The number, or None.
  """
  known = re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.text)
  if known:
    return int(known[1])
  condition = module.computations[loop.called("condition")[0]]
  test = root(condition)
  bounds = [condition[name] for name in test.operands if name in condition]
  if test.opcode == "fusion":
    inner = module.computations[test.called("calls")[0]]
    test = root(inner)
    bounds += [inner[name] for name in test.operands if name in inner]
  if test.opcode != "compare" or "direction=LT" not in test.text:
    return None
  found = [int(i.inner) for i in bounds if i.opcode == "constant"]
  return found[0] if len(found) == 1 else None


def replica_groups(text: str, devices: int) -> np.ndarray:
  """Which devices a collective joins.

  Args:
    text: of the instruction, behind its operands.
    devices: of the whole program.

  Returns:
    i[groups, size] of places in the program's device order.

  Raises:
    ValueError: for a notation that is not known.

  Example:
    >>> replica_groups("replica_groups=[2,2]<=[2,2]T(1,0)", 4).tolist()
    [[0, 2], [1, 3]]
  """
  pairs = re.search(r"source_target_pairs=\{(\{.*?\})\}", text)
  listed = re.search(r"replica_groups=\{(\{.*?\})\}", text)
  if pairs or listed:
    found = re.findall(r"\{([\d,]+)\}", (pairs or listed)[1])
    return np.array([_integers(group) for group in found])
  if "replica_groups={}" in text:
    return np.arange(devices)[None]
  iota = re.search(
    r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text
  )
  if iota:
    order = np.arange(devices).reshape(_integers(iota[2]))
    if iota[3]:
      order = order.transpose(_integers(iota[3]))
    return order.reshape(_integers(iota[1]))
  named = re.search(
    r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? "
    r"\{([^}]*)\}",
    text,
  )
  if named:
    order = named[2] and re.fullmatch(
      r"\[([\d,]+)\](?:T\(([\d,]+)\)?)?", named[2]
    )
    if order or not named[2]:
      ids = np.arange(devices)
      if order and order[2]:
        ids = ids.reshape(_integers(order[1])).transpose(_integers(order[2]))
      return ids.reshape(-1)[_by_axes(named[1], named[3])]
  raise ValueError(f"replica groups in another notation: {text[:200]}")


def _by_axes(mesh, axes):
  """Groups along named axes, or parts of axes, "name":(major)size."""
  sizes = {
    name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", mesh)
  }
  cuts = {name: [1, size] for name, size in sizes.items()}
  joined = []
  for name, major, size in re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", axes):
    first, last = 1, sizes[name]
    if size:
      first, last = int(major), int(major) * int(size)
    cuts[name] += [first, last]
    joined.append((name, first, last))
  shape, group = [], []
  for name, found in cuts.items():
    for low, high in itertools.pairwise(sorted(set(found))):
      if any(n == name and a <= low and high <= b for n, a, b in joined):
        group.append(len(shape))
      shape.append(high // low)
  order = np.arange(math.prod(sizes.values())).reshape(shape)
  rest = [axis for axis in range(len(shape)) if axis not in group]
  size = math.prod(shape[axis] for axis in group)
  return order.transpose(rest + group).reshape(-1, size)


def axes_of(groups: np.ndarray, mesh_shape: dict[str, int]) -> tuple[str, ...]:
  """Mesh axes along which the devices of a group differ.

  Args:
    groups: from `replica_groups`.
    mesh_shape: axis -> size, in the mesh's order.

  Returns:
    Names of the axes.

  Example:
    >>> axes_of(np.array([[0, 2], [1, 3]]), {"fsdp": 2, "tensor": 2})
    ('fsdp',)
  """
  places = np.stack(np.unravel_index(groups, tuple(mesh_shape.values())))
  differ = (places != places[:, :, :1]).any(axis=(1, 2))
  return tuple(itertools.compress(mesh_shape, differ))


def dot_flops(instruction: Instruction, shapes: list[Shape]) -> int:
  """Operations of a matrix product: 2 a multiplication with its addition.

  Args:
    instruction: `dot` or `convolution`, which the TPU compiler makes of one.
    shapes: of its two operands.

  Returns:
    The number; of a convolution, of those products that no padding is in.
  """
  out, (left, right) = instruction.shapes[0], shapes
  if instruction.opcode == "dot":
    found = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", instruction.text)
    places = _integers(found[1]) if found and found[1] else []
    return 2 * out.size * math.prod(left.dims[place] for place in places)
  labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", instruction.text)
  a, b, c = labels[1], labels[2], labels[3]
  products = out.dims[c.index("b")] * out.dims[c.index("f")]
  products *= right.dims[b.index("i")]
  window = re.search(r"window=\{([^}]*)\}", instruction.text)
  fields = dict(f.split("=") for f in window[1].split()) if window else {}
  for place, digit in enumerate(sorted(set(a) - {"b", "f"})):

    def field(name, default, place=place):
      return fields[name].split("x")[place] if name in fields else default

    products *= _taps(
      left.dims[a.index(digit)],
      right.dims[b.index(digit)],
      out.dims[c.index(digit)],
      stride=int(field("stride", 1)),
      low=int(field("pad", "0_0").split("_")[0]),
      spread=int(field("lhs_dilate", 1)),
      step=int(field("rhs_dilate", 1)),
    )
  return 2 * products // (instruction.number("batch_group_count") or 1)


@functools.cache
def _taps(size, kernel, out, *, stride, low, spread, step):
  """Pairs of an output and a kernel position that meet a real input."""
  at = np.arange(out)[:, None] * stride - low + np.arange(kernel) * step
  inside = (at >= 0) & (at <= (size - 1) * spread)
  return int((inside & (at % spread == 0)).sum())


def _integers(text):
  return [int(n) for n in text.split(",")]
