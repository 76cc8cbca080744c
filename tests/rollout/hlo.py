"""What does a compiled program do inside its loops? Read from its HLO text."""

import re
from typing import NamedTuple

import numpy as np

COLLECTIVE = re.compile(
  r"(all-reduce|all-gather|all-to-all|reduce-scatter|collective-\w+)(-start)?$"
)
_INSTRUCTION = re.compile(
  r"\s*(?:ROOT )?%\S+ = (?P<shape>\(.*?\)|\S+) (?P<opcode>[a-z][\w-]*)\("
)
_CALLED = re.compile(
  r"(?:calls|body|condition|to_apply|branch_computations)="
  r"(%[\w.-]+|\{[^}]*\})"
)


class Instruction(NamedTuple):
  shape: str
  opcode: str
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
      current.append(Instruction(match["shape"], match["opcode"], line))
  return found


def in_loops(text):
  """Instructions of all loops and their conditions, without fusions' own."""
  parts = computations(text)
  loops = [
    name
    for instructions in parts.values()
    for i in instructions
    if i.opcode == "while"
    for name in _called(i)
  ]
  seen, waiting, inside = set(), loops, []
  while waiting:
    name = waiting.pop()
    if name in seen:
      continue
    seen.add(name)
    for i in parts[name]:
      inside.append(i)
      if i.opcode in ("while", "call", "conditional"):
        waiting += _called(i)
  return inside


def within(text, fusion):
  """The instructions that a fusion is made of."""
  (name,) = _called(fusion)
  return computations(text)[name]


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


def _called(instruction):
  """Names of the computations that an instruction runs."""
  called = " ".join(_CALLED.findall(instruction.text))
  return re.findall(r"%([\w.-]+)", called)


def _integers(text):
  return [int(n) for n in text.split(",")]
