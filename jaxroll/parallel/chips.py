"""What can a chip do? Peaks of TPUs by their public figures, and the bound.

  seconds >= max(operations / FLOP/s, bytes / HBM bytes/s, sent / ICI bytes/s)

Figures of a chip from Google's pages "TPU v4", "TPU v5e", "TPU v5p" and
"TPU v6e" of the Cloud TPU documentation: capacity and bandwidth of its HBM,
peak bfloat16 operations, and interchip bandwidth in one direction over all its
links together (2400, 1600, 4800 and 3200 Gbit/s). A ring along one axis of the
torus uses only some of the links, so that a bound by the interconnect is
optimistic.
"""

from typing import NamedTuple


class Chip(NamedTuple):
  """Peaks of one device, in SI units.

  Attributes:
    capacity: bytes of HBM. flops: a second. hbm: bytes a second.
    ici: bytes a second that it sends. dims: axes of its torus. options: that
      make a topology's device one whole chip.
  """

  capacity: float
  flops: float
  hbm: float
  ici: float
  dims: int = 2
  options: tuple[tuple[str, str], ...] = ()


_MEGACORE = (("chip_config_name", "megacore"),)
TPUS = {
  "v4": Chip(32 * 2**30, 275e12, 1228e9, 300e9, 3, _MEGACORE),
  "v5e": Chip(16 * 2**30, 197e12, 819e9, 200e9),
  "v5p": Chip(95 * 2**30, 459e12, 2765e9, 600e9, 3, _MEGACORE),
  "v6e": Chip(32 * 2**30, 918e12, 1640e9, 400e9),
}


class Bound(NamedTuple):
  """Least seconds by each limit, and the limit that decides."""

  compute: float
  hbm: float
  interconnect: float

  @property
  def seconds(self) -> float:
    """The least possible, everything overlapped."""
    return max(self)

  @property
  def limit(self) -> str:
    """ "compute", "hbm" or "interconnect"."""
    return self._fields[self.index(self.seconds)]


def bound(chip: Chip, flops: float, hbm: float, wire: float) -> Bound:
  """Least seconds of some work on a chip.

  Args:
    chip: its peaks.
    flops: operations. hbm: bytes read and written. wire: bytes sent.

  Returns:
    `Bound`.

  Example:
    >>> bound(TPUS["v5e"], 197e12, 819e9 / 2, 0).limit
    'compute'
  """
  return Bound(flops / chip.flops, hbm / chip.hbm, wire / chip.ici)
