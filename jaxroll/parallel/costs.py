"""What does a compiled program cost? Products, HBM traffic and collectives.

XLA's own analysis counts a loop's body once. Here everything in a loop counts
as often as the loop runs; a loop whose length depends on data is left out and
named, to be measured by itself, an iteration at a time.

All figures are of one device. Operations are those of matrix products. Bytes
are read and written by whole fusions, slices and in-place updates by what they
touch; what lies in memory on the chip is not counted.
"""

from typing import NamedTuple

from jaxroll.parallel import hlo

KINDS = (
  "all-gather",
  "all-reduce",
  "all-to-all",
  "collective-broadcast",
  "collective-permute",
  "ragged-all-to-all",
  "reduce-scatter",
)
# They move nothing by themselves.
_FREE = {
  "after-all",
  "bitcast",
  "conditional",
  "constant",
  "get-tuple-element",
  "iota",
  "opt-barrier",
  "optimization-barrier",
  "parameter",
  "partition-id",
  "replica-id",
  "tuple",
  "while",
}
_FREE_CALLS = ("AllocateBuffer", "AsyncCollectiveStart", "AsyncCollectiveDone")
_SLICES = {"dynamic-slice", "slice", "gather"}


class Collective(NamedTuple):
  """Collectives of one kind over the same axes.

  Attributes:
    kind: of `KINDS`. axes: of the mesh, that its groups go along.
    count: how often one runs. bytes: of whole arrays that they join, a device's
      share gathered.
    wire: bytes that a device sends in a ring, the least possible.
    fixed: what they join is the same in every iteration of the measured loop
      (weights, for a decode loop).
  """

  kind: str
  axes: tuple[str, ...]
  count: int
  bytes: int
  wire: float
  fixed: bool


class OpenLoop(NamedTuple):
  """A loop of unknown length: its instruction, and the runs of it."""

  loop: hlo.Instruction
  times: int


class Costs(NamedTuple):
  """Of one device; see the module's docstring."""

  flops: int
  bytes: int
  collectives: tuple[Collective, ...]
  open_loops: tuple[OpenLoop, ...]

  @property
  def wire(self) -> float:
    """Bytes that a device sends."""
    return sum(c.wire for c in self.collectives)


def of_module(module: hlo.Module, mesh_shape: dict[str, int]) -> Costs:
  """Costs of a whole program, without its loops of unknown length.

  Args:
    module: from `hlo.parse`.
    mesh_shape: axis -> size of the mesh, in its order.

  Returns:
    `Costs`.
  """
  walk = _Walk(module, mesh_shape)
  walk.computation(module.entry, 1, fixed=set(), top=True)
  return walk.costs()


def of_iteration(
  module: hlo.Module, loop: hlo.Instruction, mesh_shape: dict[str, int]
) -> Costs:
  """Costs of one iteration of a loop.

  Args:
    module: whose loop it is.
    loop: its `while` instruction.
    mesh_shape: axis -> size of the mesh, in its order.

  Returns:
    `Costs`; loops of unknown length inside are left out and named.
  """
  walk = _Walk(module, mesh_shape)
  for kind in ("condition", "body"):
    (name,) = loop.called(kind)
    walk.computation(name, 1, fixed=_kept(module.computations[name]), top=True)
  return walk.costs()


def _kept(body):
  """Names of what a body hands on as it got it: each iteration sees it."""
  result = hlo.root(body)
  if result.opcode != "tuple":
    return set()
  names = set()
  for place, name in enumerate(result.operands):
    source = body[name]
    if source.opcode == "get-tuple-element" and (
      body[source.operands[0]].opcode == "parameter"
      and source.number("index") == place
    ):
      names |= {
        i.name
        for i in body.values()
        if i.opcode == "get-tuple-element"
        and i.operands == source.operands
        and i.number("index") == place
      }
  return names


class _Walk:
  """Adds up what computations do."""

  def __init__(self, module, mesh_shape):
    self.module, self.mesh_shape = module, mesh_shape
    self.devices = 1
    for size in mesh_shape.values():
      self.devices *= size
    self.flops = self.bytes = 0
    self.found, self.open_loops = {}, []

  def costs(self):
    collectives = tuple(
      Collective(kind, axes, *numbers, fixed)
      for (kind, axes, fixed), numbers in sorted(self.found.items())
    )
    return Costs(self.flops, self.bytes, collectives, tuple(self.open_loops))

  def computation(self, name, times, *, fixed, top, chains=None):
    """Adds a computation's instructions; `top`: their traffic too."""
    body = self.module.computations[name]
    fixed, chains = set(fixed), set() if chains is None else chains
    for i in body.values():
      if i.opcode in ("constant", "iota") or (
        i.operands and all(name in fixed for name in i.operands)
      ):
        fixed.add(i.name)
      if top:
        self.bytes += times * self._traffic(i, body)
      if i.opcode in ("dot", "convolution"):
        shapes = [body[name].shapes[0] for name in i.operands[:2]]
        self.flops += times * hlo.dot_flops(i, shapes)
      elif i.opcode.removesuffix("-start") in KINDS:
        self._collective(name, i, body, times, fixed, chains)
      self._inner(i, times, fixed, top, chains)

  def _inner(self, i, times, fixed, top, chains):
    """Adds the computations that an instruction runs."""
    if i.opcode == "while":
      trips = hlo.trip_count(self.module, i)
      if trips is None:
        self.open_loops.append(OpenLoop(i, times))
        return
      for name in i.called("condition", "body"):
        self.computation(
          name, times * trips, fixed=set(), top=top, chains=chains
        )
    elif i.opcode == "conditional":
      names = i.called(
        "branch_computations", "true_computation", "false_computation"
      )
      self._dearest(names, times, top)
    elif i.opcode in ("fusion", "call", "async-start"):
      for name in i.called("calls", "to_apply"):
        given = set()
        for inner in self.module.computations[name].values():
          if inner.opcode == "parameter":
            place = int(inner.inner)
            if place < len(i.operands) and i.operands[place] in fixed:
              given.add(inner.name)
        self.computation(
          name,
          times,
          fixed=given,
          top=top and i.opcode != "fusion",
          chains=chains,
        )

  def _dearest(self, names, times, top):
    """Adds the branch that costs most."""
    walks = []
    for name in names:
      walk = _Walk(self.module, self.mesh_shape)
      walk.computation(name, times, fixed=set(), top=top)
      walks.append(walk)
    walk = max(walks, key=lambda w: (w.flops, w.bytes))
    self.flops += walk.flops
    self.bytes += walk.bytes
    self.open_loops += walk.open_loops
    for key, numbers in walk.found.items():
      self._add(key, numbers)

  def _add(self, key, numbers):
    old = self.found.get(key, (0, 0, 0.0))
    self.found[key] = tuple(a + b for a, b in zip(old, numbers))

  def _collective(self, name, i, body, times, fixed, chains):
    # The compiler runs one between several fusions and writes it in each.
    chain = i.number("chain_id")
    if chain is not None:
      key = (i.number("channel_id"), chain)
      if key in chains:
        return
      chains.add(key)
    kind = i.opcode.removesuffix("-start")
    groups = hlo.replica_groups(i.text, self.devices)
    size = groups.shape[1]
    given = sum(s.nbytes for n in i.operands for s in body[n].shapes)
    share = (size - 1) / size
    if "all-reduce-scatter" in name:
      kind = "reduce-scatter"
    whole = given * size if kind == "all-gather" else given
    wire = {"all-reduce": 2 * share, "collective-permute": 1.0}.get(kind, share)
    axes = hlo.axes_of(groups, self.mesh_shape)
    same = all(operand in fixed for operand in i.operands)
    self._add((kind, axes, same), (times, times * whole, times * wire * whole))

  def _traffic(self, i, body):
    """Bytes of HBM that an instruction reads and writes."""
    if i.opcode in _FREE or i.opcode.endswith(("-done", "-update")):
      return 0
    if i.opcode in ("call", "async-start"):
      return 0
    if any(f'"{name}"' in i.text for name in _FREE_CALLS):
      return 0
    operands = [body[name].shapes for name in i.operands]
    if i.opcode in ("copy-start", "slice-start", "dynamic-slice-start"):
      moved = i.shapes[0 if i.opcode == "copy-start" else len(operands[0])]
      near = (operands[0][0].near, moved.near)
      return moved.nbytes * (2 - sum(near))
    if i.opcode.endswith("-start"):  # a collective: its result alone
      return sum(map(_far, (s for shapes in operands for s in shapes))) + (
        sum(map(_far, i.shapes[len(operands) :]))
      )
    if i.opcode == "fusion":
      return self._fusion(i, operands)
    if i.opcode in _SLICES:
      return 2 * _far(i.shapes[0])
    if i.opcode in ("dynamic-update-slice", "scatter"):
      place = 1 if i.opcode == "dynamic-update-slice" else -1
      far = not i.shapes[0].near
      return far * 2 * operands[place][0].nbytes
    read = sum(_far(s) for shapes in operands for s in shapes)
    return read + sum(map(_far, i.shapes))

  def _fusion(self, i, operands):
    (name,) = i.called("calls")
    inner = self.module.computations[name]
    total = 0
    for parameter in inner.values():
      if parameter.opcode != "parameter":
        continue
      shapes = operands[int(parameter.inner)]
      if not all(shape.near for shape in shapes):
        full = sum(s.nbytes for s in shapes)
        total += min(full, self._read(name, parameter.name, full))
    result = hlo.root(inner)
    names = result.operands if result.opcode == "tuple" else (result.name,)
    for shape, made in zip(i.shapes, names):
      if not shape.near:
        total += self._written(name, made, shape)
    return total

  def _read(self, name, parameter, full):
    """Bytes that a fused computation reads of a parameter."""
    inner, total = self.module.computations[name], 0
    for user in inner.values():
      if parameter not in user.operands or user.opcode == "tuple":
        continue
      if user.opcode.removesuffix("-start") in KINDS:
        continue  # as a collective's
      in_place = user.operands[0] == parameter
      if user.opcode == "bitcast" or (
        user.opcode == "dynamic-update-slice" and in_place
      ):
        total += self._read(name, user.name, full)
      elif user.opcode in _SLICES and in_place:
        total += user.shapes[0].nbytes
      elif user.opcode == "fusion":
        (called,) = user.called("calls")
        for deeper in self.module.computations[called].values():
          if deeper.opcode == "parameter" and (
            user.operands[int(deeper.inner)] == parameter
          ):
            total += self._read(called, deeper.name, full)
            if self._same(called) == deeper.name:
              total += self._read(name, user.name, full)
      else:
        return full
    return total

  def _same(self, name):
    """The parameter that a fused computation only gives another shape."""
    inner = self.module.computations[name]
    i = hlo.root(inner)
    while i.opcode == "bitcast":
      i = inner[i.operands[0]]
    return i.name

  def _written(self, name, made, shape):
    """Bytes that a fused computation writes of one of its results."""
    inner = self.module.computations[name]
    i = inner[made]
    while i.opcode == "bitcast":
      i = inner[i.operands[0]]
    if i.opcode == "parameter" or i.opcode.removesuffix("-start") in KINDS:
      return 0
    if i.opcode == "dynamic-update-slice":
      return inner[i.operands[1]].shapes[0].nbytes
    if i.opcode == "fusion" and len(i.shapes) == 1:
      (called,) = i.called("calls")
      deeper = hlo.root(self.module.computations[called])
      return self._written(called, deeper.name, shape)
    return shape.nbytes


def _far(shape):
  """Bytes in HBM."""
  return 0 if shape.near else shape.nbytes
