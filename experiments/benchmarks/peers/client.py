"""A peer as this process sees it: starts its worker, asks, waits."""

import json
import pathlib
import subprocess
import tempfile
import threading

import numpy as np

from experiments.benchmarks import timing
from experiments.benchmarks.peers import packages

_HERE = pathlib.Path(__file__).parent


class Worker:
  """A `timing.Peer` whose process lives until it fails or is closed.

  Args:
    name: of `packages.REQUIREMENTS`, or of the fields ratio_* of a row.
    command: that starts the worker; None finds or makes its environment.
    limit: seconds that an answer may take.
  """

  def __init__(self, name: str, command=None, *, limit: float = 3600.0):
    self.name = name
    self._command, self._limit = command, limit
    self._process = None
    self._folder = tempfile.TemporaryDirectory()
    self._said = pathlib.Path(self._folder.name) / "stderr.txt"

  def start(self, job: dict) -> None:
    """Sends a job, its arrays by a file, and waits until it is built.

    Raises:
      timing.Failed: where it cannot be, or there is no worker to send it to.
    """
    if self._process is None:
      self._launch()
    file = str(pathlib.Path(self._folder.name) / "job.npz")
    np.savez(file, **job["arrays"])
    self._send(job | {"arrays": file})
    self._answer()

  def once(self) -> timing.Sample:
    """One call. Raises: timing.Failed."""
    self._send({"go": True})
    answer = self._answer()
    return timing.Sample(answer["seconds"], answer["tokens"])

  def end(self) -> dict:
    """Ends the job. Raises: timing.Failed."""
    self._send({"go": False})
    return self._answer()

  def close(self) -> None:
    """Ends the process and forgets what it said."""
    self._stop()
    self._folder.cleanup()

  def _launch(self):
    command = self._command
    if command is None:
      worker = _HERE / f"{self.name}_worker.py"
      command = [str(packages.python(self.name)), str(worker)]
    with self._said.open("w", encoding="utf-8") as said:
      self._process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
        text=True,
      )

  def _send(self, message):
    try:
      self._process.stdin.write(json.dumps(message) + "\n")
      self._process.stdin.flush()
    except BrokenPipeError:
      raise self._failed("has ended") from None

  def _answer(self):
    timer = threading.Timer(self._limit, self._process.kill)
    timer.start()
    line = self._process.stdout.readline()
    timer.cancel()
    if not line:
      raise self._failed(f"ended, or took more than {self._limit:.0f} s")
    answer = json.loads(line)
    if "error" in answer:
      raise self._failed(answer["error"])
    return answer

  def _failed(self, reason):
    """The error to raise, with the last that the worker said."""
    self._stop()
    lines = self._said.read_text(encoding="utf-8", errors="replace")
    last = " | ".join(lines.strip().splitlines()[-3:])
    return timing.Failed(f"{reason}; it said: {last}")

  def _stop(self):
    process, self._process = self._process, None
    if process is not None:
      process.kill()
      process.wait()
      process.stdin.close()
      process.stdout.close()
