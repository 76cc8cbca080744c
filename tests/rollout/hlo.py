"""What does a compiled program do inside its loops? Read from its HLO text."""

import re
from typing import NamedTuple

import numpy as np

COLLECTIVE = re.compile(
  r"(all-reduce|all-gather|all-to-all|reduce-scatter|collective-\w+)(-start)?$"
)
_INSTRUCTION = re.compile(
  r"\s*(?P<root>ROOT )?%(?P<name>\S+) = (?P<shape>\(.*?\)|\S+) "
  r"(?P<opcode>[a-z][\w-]*)\("
)
_CALLED = re.compile(r"(?:calls|body|condition|to_apply)=%([\w.-]+)")


class Instruction(NamedTuple):
  shape: str
  opcode: str
  root: bool
  text: str


def computations(text):
  """name -> instructions of each computation of the module."""
  found, current = {}, None
  for line in text.splitlines():
    # A header starts in column 0: "%name (parameters) -> result {".
    header = re.match(r"(?:ENTRY )?%?([\w.-]+) .*\{$", line)
    if header:
      current = found[header[1]] = []
    match = _INSTRUCTION.match(line)
    if match and current is not None:
      current.append(
        Instruction(match["shape"], match["opcode"], bool(match["root"]), line)
      )
  return found


def in_loops(text):
  """Instructions of all while bodies, those of fusions left out."""
  parts = computations(text)
  bodies = [
    name
    for instructions in parts.values()
    for i in instructions
    if i.opcode == "while"
    for name in re.findall(r"body=%([\w.-]+)", i.text)
  ]
  seen, waiting, inside = set(), bodies, []
  while waiting:
    name = waiting.pop()
    if name in seen:
      continue
    seen.add(name)
    for i in parts[name]:
      inside.append(i)
      if i.opcode in ("while", "call", "conditional"):
        waiting += _CALLED.findall(i.text)
  return inside


def root_of_fusion(text, fusion):
  """The instruction a fusion returns."""
  called = computations(text)[_CALLED.search(fusion.text)[1]]
  return next(i for i in called if i.root)


def replica_groups(collective):
  """The devices that a collective joins: one list for each group."""
  text = collective.text
  listed = re.search(r"replica_groups=\{(\{.*?\})\}", text)
  if listed:
    found = re.findall(r"\{([\d,]+)\}", listed[1])
    return [_integers(group) for group in found]
  # [groups, size]<=[shape]T(order): an iota, reshaped and transposed.
  iota = re.search(
    r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text
  )
  assert iota, f"replica groups in another form: {text}"
  shape = _integers(iota[2])
  devices = np.arange(np.prod(shape)).reshape(shape)
  if iota[3]:
    devices = devices.transpose(_integers(iota[3]))
  return devices.reshape(_integers(iota[1])).tolist()


def _integers(text):
  return [int(n) for n in text.split(",")]
