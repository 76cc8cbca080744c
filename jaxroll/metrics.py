"""What happened in every step, and is anything compiling that should not?

`metrics.jsonl` holds one flat JSON record a step and is the run's one source
of numbers; TensorBoard events, the progress line and the report are views of
it. A run that was killed and resumed leaves the records of one uninterrupted
run: write the record of a step before its checkpoint, and `truncate` to the
restored step before going on.
"""

import contextlib
import io
import json
import math
import os
import pathlib
import sys
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from absl import logging

METRICS, SUMMARY = "metrics.jsonl", "summary.json"


def _plain(name: str, value: Any) -> float | int | bool | str | None:
  """Returns a JSON scalar, non-finite floats as they are."""
  if value is None or isinstance(value, (str, bool, int, float)):
    return value
  array = np.asarray(value)
  if array.ndim != 0 or array.dtype.kind not in "biufV":
    raise ValueError(
      f"metric {name!r} is {type(value).__name__}{list(array.shape)}: give a "
      "number or a string, one metric for each entry of an array"
    )
  # Kind V: bfloat16 and its smaller siblings, which json does not know.
  return float(array) if array.dtype.kind == "V" else array.item()


def _null(name: str, value: Any) -> Any:
  """Replaces non-finite floats, which JSON cannot hold, by None."""
  if isinstance(value, Mapping):
    return {str(key): _null(str(key), entry) for key, entry in value.items()}
  if isinstance(value, (list, tuple)):
    return [_null(name, entry) for entry in value]
  value = _plain(name, value)
  if isinstance(value, float) and not math.isfinite(value):
    return None
  return value


class MetricsWriter:
  """Appends one record a step to `metrics.jsonl`.

  Each record reaches the operating system when `write` returns, so a killed
  process loses none. With several processes the first one writes, the others'
  writers do nothing.

  Args:
    workdir: the run's directory, which exists.
    tensorboard: write TensorBoard events into `workdir/tensorboard` too.

  Attributes:
    nonfinite: how many NaN and infinite values were written as null.

  Raises:
    ImportError: `tensorboard` without tensorboardX.

  Example:
    >>> writer = MetricsWriter(workdir)
    >>> writer.truncate(restored_step)  # after a resume; -1: start over
    >>> writer.write(step, {"reward": 0.5})
  """

  def __init__(self, workdir, *, tensorboard: bool = False):
    self.nonfinite = 0
    self._workdir = pathlib.Path(workdir)
    first = jax.process_index() == 0
    self._path = self._workdir / METRICS if first else pathlib.Path(os.devnull)
    _drop_torn_line(self._path)
    self._file = self._path.open("a", buffering=1, encoding="utf-8")
    self._tensorboard = None
    if tensorboard and first:
      self._tensorboard = _events(self._workdir)

  def write(self, step: int, record: Mapping[str, Any]) -> None:
    """Appends a step's record.

    Args:
      step: steps done, >= 0.
      record: numbers (Python, numpy or JAX scalars) and strings by name. NaN
        and infinities are written as null and counted.

    Raises:
      ValueError: a value that is no scalar.
    """
    values = {name: _plain(name, value) for name, value in record.items()}
    finite = {name: _null(name, value) for name, value in values.items()}
    lost = [n for n, v in values.items() if v is not None and finite[n] is None]
    if lost:
      self.nonfinite += len(lost)
      logging.warning("step %d: not finite: %s", step, ", ".join(lost))
    line = json.dumps({"step": int(step), **finite}, allow_nan=False)
    self._file.write(line + "\n")
    if self._tensorboard is not None:
      for name, value in finite.items():
        if isinstance(value, (int, float)):
          self._tensorboard.add_scalar(name, value, int(step))

  def truncate(self, step: int) -> None:
    """Drops the records of later steps: the resumed run writes them again.

    Args:
      step: the restored step; -1 drops everything.
    """
    self._file.close()
    truncate_records(self._path, step)
    self._file = self._path.open("a", buffering=1, encoding="utf-8")
    if self._tensorboard is not None:
      self._tensorboard.close()
      self._tensorboard = _events(self._workdir, purge_step=step + 1)

  def close(self) -> None:
    """Closes the files."""
    self._file.close()
    if self._tensorboard is not None:
      self._tensorboard.close()

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self.close()


def _events(workdir: pathlib.Path, *, purge_step: int | None = None):
  try:
    import tensorboardX  # an extra, which most runs do without
  except ImportError as error:
    raise ImportError(
      "TensorBoard events need tensorboardX: pip install jaxroll[tensorboard]"
    ) from error
  # The suffix: two files begun in one second would have the same name.
  return tensorboardX.SummaryWriter(
    str(workdir / "tensorboard"),
    purge_step=purge_step,
    filename_suffix="" if purge_step is None else f".from_{purge_step}",
  )


def _drop_torn_line(path: pathlib.Path) -> None:
  # A record written after half a line would be lost together with it.
  if path.is_file():
    whole = path.read_bytes().rpartition(b"\n")
    os.truncate(path, len(whole[0]) + len(whole[1]))


def _replace(path: pathlib.Path, text: str) -> None:
  # The rename is atomic: a kill leaves the old file or the new one.
  partial = path.with_name(path.name + ".tmp")
  partial.write_text(text, encoding="utf-8")
  os.replace(partial, path)


def read_records(path) -> list[dict]:
  """Returns the records of a JSON-lines file; none if there is no file.

  A last line without its newline was torn by a kill and is left out.

  Args:
    path: the file.

  Raises:
    ValueError: another line is no JSON, with its number.
  """
  path = pathlib.Path(path)
  if not path.exists():
    return []
  records = []
  lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
  for number, line in enumerate(lines[:-1], start=1):
    try:
      records.append(json.loads(line))
    except json.JSONDecodeError as error:
      raise ValueError(
        f"{path}:{number} is not JSON: delete the line to go on"
      ) from error
  return records


def truncate_records(path, step: int) -> None:
  """Drops the records of a JSON-lines file with a later step, atomically.

  Args:
    path: the file; none is made where there is none.
    step: the last step kept.
  """
  path = pathlib.Path(path)
  kept = [r for r in read_records(path) if r["step"] <= step]
  if path.is_file():
    _replace(path, "".join(json.dumps(r) + "\n" for r in kept))


def read_metrics(workdir) -> list[dict]:
  """Returns the records of a run's `metrics.jsonl`, null as None."""
  return read_records(pathlib.Path(workdir) / METRICS)


def write_summary(workdir, summary: Mapping[str, Any]) -> None:
  """Writes `summary.json`, whole or not at all.

  Args:
    workdir: the run's directory, which exists.
    summary: nested dicts and lists of scalars; non-finite ones become null.
  """
  text = json.dumps(_null("summary", summary), indent=2, allow_nan=False)
  _replace(pathlib.Path(workdir) / SUMMARY, text + "\n")


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
  """Returns a nested dict's values by dotted name.

  Example:
    >>> flatten({"lr": 0.1, "model": {"layers": 2}})
    {'lr': 0.1, 'model.layers': 2}
  """
  flat = {}
  for name, value in tree.items():
    if isinstance(value, Mapping) and value:
      flat |= flatten(value, f"{prefix}{name}.")
    else:
      flat[f"{prefix}{name}"] = value
  return flat


class Progress:
  """One line that says how far a run is.

  On a terminal the line is rewritten in place; elsewhere (a job's log) a line
  is added now and then. With several processes the first one speaks. Time left
  is measured from the first update on, which leaves the compilation of the
  first step out.

  Args:
    total: steps of the whole run.
    stream: where to; None for standard error, of the first process.
    every: seconds between lines where `stream` is no terminal.
    clock: () -> seconds.

  Example:
    >>> progress = Progress(1000)
    >>> progress.update(12, {"reward": 0.5})  # step 12/1000  1%  ...
  """

  def __init__(
    self, total: int, *, stream=None, every=10.0, clock=time.monotonic
  ):
    self._total = total
    if stream is None:
      stream = io.StringIO() if jax.process_index() else sys.stderr
    self._stream = stream
    self._tty = self._stream.isatty()
    self._every, self._clock = 0.1 if self._tty else every, clock
    self._first = None  # step and time of the first update
    self._shown = -math.inf
    self._width = 0

  def update(self, step: int, fields: Mapping[str, Any] | None = None) -> None:
    """Shows `step` of `total` with the given fields, if it is time to."""
    now = self._clock()
    if self._first is None:
      self._first = (step, now)
    if now - self._shown < self._every and step < self._total:
      return
    self._shown = now
    parts = [f"step {step}/{self._total}", f"{100 * step // self._total}%"]
    parts.append(f"{self._left(step, now)} left")
    for name, value in (fields or {}).items():
      value = _plain(name, value)
      shown = f"{value:.4g}" if isinstance(value, float) else value
      parts.append(f"{name} {shown}")
    line = "  ".join(parts)
    if self._tty:
      self._stream.write("\r" + line.ljust(self._width))
      self._width = len(line)
    else:
      self._stream.write(line + "\n")
    self._stream.flush()

  def note(self, text: str) -> None:
    """Adds a text of its own; the line of a terminal goes on below it."""
    start = "\r" if self._tty else ""
    # Padded: what is left of a longer line would stand behind the text.
    self._stream.write(start + text.ljust(self._width) + "\n")
    self._stream.flush()
    self._width = 0

  def _left(self, step: int, now: float) -> str:
    first, start = self._first
    if step == first:
      return "-:--:--"
    seconds = round((now - start) / (step - first) * (self._total - step))
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"

  def close(self) -> None:
    """Ends the line of a terminal."""
    if self._tty and self._width:
      self._stream.write("\n")
      self._stream.flush()


def trace(folder: str | None):
  """A context in which a trace is written that Perfetto and TensorBoard open.

  Args:
    folder: where to, or None for no trace.

  >>> with trace(None):
  ...   pass
  """
  if folder is None:
    return contextlib.nullcontext()
  return jax.profiler.trace(folder, create_perfetto_trace=True)


class CompileCounter:
  """Counts the programs that were compiled in this process, by name.

  A program that comes out of the persistent compilation cache counts too: it
  was traced and lowered anew, which is what a step must not do twice.

  Attributes:
    names: the compiled functions, oldest first.

  Example:
    >>> counter = CompileCounter()
    >>> mark = counter.count
    >>> train_step(state)
    >>> counter.since(mark)
    0
  """

  # Recorded around the backend's compilation and around the cache's answer.
  _EVENT = "/jax/core/compile/backend_compile_duration"

  def __init__(self):
    self.names: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(self._listen)

  def _listen(self, event: str, duration: float, **metadata) -> None:
    del duration
    if event == self._EVENT:
      self.names.append(str(metadata.get("fun_name", "?")))

  @property
  def count(self) -> int:
    """Programs compiled since the counter was made."""
    return len(self.names)

  def since(self, mark: int) -> int:
    """Returns how many were compiled after `count` was `mark`."""
    return self.count - mark

  def close(self) -> None:
    """Stops counting."""
    jax.monitoring.unregister_event_duration_listener(self._listen)
