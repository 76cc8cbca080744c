"""Suite: how long does a newcomer wait for the quickstart's first step?

  start_cold   nothing compiled before
  start_warm   what the run before compiled is in the cache

From the start of the process of `experiments.train` to the record of step 1:
imports, warm start and the first evaluation included.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from experiments.benchmarks import timing

_ROOT = pathlib.Path(__file__).parents[2]


def start(repeats: int, flags: tuple = ()) -> list:
  """Rows of cold and warm starts; `median_s` is to the end of step 1.

  Args:
    repeats: pairs of a cold and a warm process.
    flags: of `experiments.train`, further ones.

  Returns:
    A list of two `timing.Row`.

  Raises:
    RuntimeError: where a process fails, with what it said last.
  """
  cold, warm = [], []
  for _ in range(repeats):
    with tempfile.TemporaryDirectory() as folder:
      cache = pathlib.Path(folder) / "cache"
      cold.append(_first_step(pathlib.Path(folder) / "cold", cache, flags))
      warm.append(_first_step(pathlib.Path(folder) / "warm", cache, flags))
  return [_row("start_cold", cold), _row("start_warm", warm)]


def _first_step(workdir, cache, flags):
  """Seconds from the process's start to the record of its first step."""
  environment = os.environ | {
    "JAX_COMPILATION_CACHE_DIR": str(cache),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
  }
  command = [sys.executable, "-m", "experiments.train", f"--workdir={workdir}"]
  began = time.time()
  ended = subprocess.run(
    [*command, "--config.steps=1", *flags],
    cwd=_ROOT,
    env=environment,
    capture_output=True,
    text=True,
  )
  if ended.returncode:
    raise RuntimeError(f"{' '.join(command)}: {ended.stderr[-2000:]}")
  # The last that was written to it is the record of step 1.
  return (workdir / "metrics.jsonl").stat().st_mtime - began


def _row(name, seconds):
  ordered = sorted(seconds)
  median = ordered[len(ordered) // 2]
  return timing.Row(name, "quickstart", median, ordered[0], ordered[-1])
