"""How is one thing timed beside others? In turns, so that noise hits all alike.

A round calls the case once here and once in every peer; a ratio is the median
over rounds of (the peer's seconds a token) / (ours).
"""

import contextlib
import pathlib
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import jax

from jaxroll import metrics

_STATUS = pathlib.Path("/proc/self/status")
_CLEAR = pathlib.Path("/proc/self/clear_refs")


class Row(NamedTuple):
  """What was measured of one function at one size; None: does not apply.

  Attributes:
    name: of the case. size: of the shapes, or N prompts in `allocate`.
    median_s, min_s, max_s: seconds of a call, compiled before.
    compile_s: seconds of the first call less the median.
    tokens: useful ones of a call, the median: of rows up to their stop token
      and, in updates, of each row's prompt.
    tokens_per_s: tokens / seconds, the median over calls.
    flops: of a call, the least that a model without shared prompts needs.
    flops_per_s: flops / median_s.
    matmul_share: seconds of the bare matrix products for the useful tokens /
      seconds of the call, the median over rounds that time both. Shared
      prompts may bring it above 1.
    peak_memory_mb: of the process while the case ran, what it held before
      included; of the device where that counts its own.
    ratio_tunix, ratio_trl: median over rounds of tokens/s here / there; below
      them the least and the greatest.
    peers: by name what was measured there, or {"error": why not}.
    slots: rows decoded at once.
    compiles: programs compiled after the warm-up.
    sampler_gap_max, sampler_gap_mean: sampler against trainer, in log-prob.
    sampler_gap_limit: 2e-6 * max(1, max |logit|).
    growth_mb: of the process's memory over a soak's steps.
    prompts_per_s: size / median_s. ratio_heap: plain Python's seconds / ours.
  """

  name: str
  size: str | int
  median_s: float
  min_s: float
  max_s: float
  compile_s: float | None = None
  tokens: float | None = None
  tokens_per_s: float | None = None
  flops: float | None = None
  flops_per_s: float | None = None
  matmul_share: float | None = None
  peak_memory_mb: float | None = None
  ratio_tunix: float | None = None
  ratio_tunix_min: float | None = None
  ratio_tunix_max: float | None = None
  ratio_trl: float | None = None
  ratio_trl_min: float | None = None
  ratio_trl_max: float | None = None
  peers: dict | None = None
  slots: int | None = None
  compiles: int | None = None
  sampler_gap_max: float | None = None
  sampler_gap_mean: float | None = None
  sampler_gap_limit: float | None = None
  growth_mb: float | None = None
  prompts_per_s: float | None = None
  ratio_heap: float | None = None


class Case(NamedTuple):
  """Something to time.

  Attributes:
    name: of the row.
    call: () -> result; has ended when it returns.
    tokens: (result) -> useful tokens. flops: (result) -> the least FLOPs.
    products: (result) -> seconds of the same work's bare products, measured
      at this moment; None where there are none.
    details: () -> further fields of the row, or better ones, asked for after
      the last call.
    job: what peers are told to time, None where they have nothing like it.
  """

  name: str
  call: Callable
  tokens: Callable
  flops: Callable
  products: Callable | None = None
  details: Callable = dict
  job: dict | None = None


class Sample(NamedTuple):
  """One call."""

  seconds: float
  tokens: float


class Failed(RuntimeError):
  """A peer cannot time a case; the text says why."""


class Peer(Protocol):
  """Another framework, in a process of its own."""

  name: str

  def start(self, job: dict) -> None:
    """Builds what `job` says."""

  def once(self) -> Sample:
    """One call of it."""

  def end(self) -> dict:
    """Lets go of it; returns further fields to note."""


def compare(
  case: Case,
  size: str,
  repeats: int,
  peers: Sequence[Peer] = (),
  *,
  profile: str | None = None,
) -> Row:
  """Times a case here and in the peers, in turns.

  Args:
    case: what to time.
    size: of the row.
    repeats: rounds after one that compiles and one that warms up.
    peers: the others; one that fails is left out of the rest, and said.
    profile: folder for a trace of one more call, or None.

  Returns:
    The row.
  """
  reset_peak()
  samples, work, share, notes = {"": []}, [], [], {}

  def able():
    return [peer for peer in peers if "error" not in notes.get(peer.name, {})]

  if case.job is None:
    peers = ()
  for peer in peers:
    samples[peer.name] = []
    with _noted(peer, case, notes):
      peer.start(case.job)
  for number in range(repeats + 2):
    began = time.perf_counter()
    result = case.call()
    seconds = time.perf_counter() - began
    samples[""].append(Sample(seconds, case.tokens(result)))
    work.append(case.flops(result))
    if case.products is not None and number > 1:
      share.append(case.products(result) / seconds)
    for peer in able():
      with _noted(peer, case, notes):
        samples[peer.name].append(peer.once())
  peak = peak_memory_mb()
  for peer in able():
    with _noted(peer, case, notes):
      notes[peer.name] = _summary(samples[peer.name]) | peer.end()
  if profile is not None:
    with metrics.trace(str(pathlib.Path(profile) / case.name)):
      case.call()
  summary = _summary(samples[""])
  flops = statistics.median(work[2:])
  fields = summary | {
    "flops": flops,
    "flops_per_s": flops / summary["median_s"],
    "matmul_share": statistics.median(share) if share else None,
    "peak_memory_mb": peak,
    "peers": notes or None,
  }
  row = Row(case.name, size, **(fields | case.details()))
  for peer in able():
    row = row._replace(**_ratios(peer.name, samples[""], samples[peer.name]))
  return row


@contextlib.contextmanager
def _noted(peer, case, notes):
  """A peer's failure is printed and noted in the row; the others go on."""
  try:
    yield
  except Failed as error:
    print(f"{case.name}: no {peer.name}: {error}", file=sys.stderr)
    notes[peer.name] = {"error": str(error)}


def _summary(samples):
  """Fields of a row from all samples, the first two of which are no rounds."""
  first, _, *rounds = samples
  seconds = [sample.seconds for sample in rounds]
  median = statistics.median(seconds)
  return {
    "median_s": median,
    "min_s": min(seconds),
    "max_s": max(seconds),
    "compile_s": first.seconds - median,
    "tokens": statistics.median(s.tokens for s in rounds),
    "tokens_per_s": statistics.median(s.tokens / s.seconds for s in rounds),
  }


def _ratios(name, ours, theirs):
  """The peer's seconds a token / ours, by round."""
  ratios = [
    (there.seconds / there.tokens) / (here.seconds / here.tokens)
    for here, there in list(zip(ours, theirs))[2:]
  ]
  return {
    f"ratio_{name}": statistics.median(ratios),
    f"ratio_{name}_min": min(ratios),
    f"ratio_{name}_max": max(ratios),
  }


def measure(name: str, size: int, repeats: int, call: Callable) -> Row:
  """Times a call that gives arrays.

  Args:
    name: of the row.
    size: prompts that the call works on.
    repeats: calls after the first, >= 1.
    call: () -> arrays.

  Returns:
    The row; its `compile_s` is the first call's time.
  """

  def seconds():
    began = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - began

  first = seconds()
  times = [seconds() for _ in range(repeats)]
  median = statistics.median(times)
  return Row(
    name,
    size,
    median,
    min(times),
    max(times),
    first,
    prompts_per_s=size / median,
  )


# --- memory


def resident_mb() -> float:
  """What the process holds now, in MB; its peak where the system won't say."""
  return _status_mb("VmRSS")


def peak_memory_mb() -> float:
  """The most that was held since `reset_peak`, in MB.

  Of the device where it counts for itself; else of the process, since its
  start on systems without /proc.
  """
  device = jax.devices()[0].memory_stats()
  if device and "peak_bytes_in_use" in device:
    return device["peak_bytes_in_use"] / 2**20
  return _status_mb("VmHWM")


def reset_peak() -> None:
  """Lets the process's peak begin anew, where the system can."""
  if _CLEAR.exists():
    # What stands there is an instruction to the kernel; 5 is this one.
    with contextlib.suppress(PermissionError):
      _CLEAR.write_text("5", encoding="ascii")


def _status_mb(name):
  if _STATUS.exists():
    for line in _STATUS.read_text(encoding="ascii").splitlines():
      if line.startswith(f"{name}:"):
        return int(line.split()[1]) / 1024
  most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  return most / (2**20 if sys.platform == "darwin" else 1024)


def table(rows: Sequence[Row]) -> str:
  """The rows as text, a line each under a line of headings."""
  head = ("median s", "min", "max", "compile s", "tokens/s", "GFLOP/s", "share")
  head += ("peak MB", "slots", "x tunix", "x trl")
  wide = max(len(row.name) for row in rows) + 2
  lines = [" " * wide + "".join(f"{word:>11}" for word in head)]
  for row in rows:
    figures = (
      _text(row.median_s, ".4f"),
      _text(row.min_s, ".4f"),
      _text(row.max_s, ".4f"),
      _text(row.compile_s, ".2f"),
      _text(row.tokens_per_s, ".0f"),
      _text(row.flops_per_s and row.flops_per_s / 1e9, ".1f"),
      _text(row.matmul_share, ".2f"),
      _text(row.peak_memory_mb, ".0f"),
      _text(row.slots, "d"),
      _text(row.ratio_tunix, ".2f"),
      _text(row.ratio_trl, ".2f"),
    )
    lines.append(f"{row.name:<{wide}}" + "".join(f"{x:>11}" for x in figures))
    further = {
      name: getattr(row, name)
      for name in _FURTHER
      if getattr(row, name) is not None
    }
    if further:
      words = ", ".join(f"{name} {x:.3g}" for name, x in further.items())
      lines.append(f"  {words}")
  return "\n".join(lines)


_FURTHER = ("compiles", "sampler_gap_max", "sampler_gap_mean")
_FURTHER += ("sampler_gap_limit", "growth_mb")


def _text(value, form):
  return "" if value is None else format(value, form)
