"""Which packages does a peer need, and where are they?

A virtual environment for each under the cache folder (JAXROLL_CACHE, or
jaxroll in the user's), made with `venv` and pip the first time and used again.
pip is asked by package name and goes by its own configuration (`pip config`,
PIP_INDEX_URL ...). Where the plain index gives PyTorch with CUDA, which is
large and not needed here, point pip at an index of CPU builds.
"""

import importlib.metadata
import pathlib
import subprocess
import sys

from experiments.benchmarks.timing import Failed
from jaxroll.models import smollm2

REQUIREMENTS = {
  # The same compiler as this process has.
  "tunix": (
    "google-tunix==0.1.7",
    f"jax=={importlib.metadata.version('jax')}",
  ),
  "trl": ("trl==1.16.0", "transformers==5.24.0", "torch==2.13.0"),
}
_DONE = "installed.txt"


def python(name: str, folder: pathlib.Path | None = None) -> pathlib.Path:
  """The interpreter of a peer's environment, made now if there is none.

  Args:
    name: of `REQUIREMENTS`.
    folder: that holds the environments; None takes the cache folder's.

  Returns:
    Its path.

  Raises:
    timing.Failed: where it cannot be made (no network, no such release), with
      what was said last.
  """
  folder = folder or smollm2.cache_folder() / "bench"
  home = folder / name
  made = home / "bin" / "python"
  wanted = "\n".join(REQUIREMENTS[name]) + "\n"
  done = home / _DONE
  if done.exists() and done.read_text(encoding="utf-8") == wanted:
    return made
  print(f"{name}: installing {', '.join(REQUIREMENTS[name])} in {home}")
  if not (home / "bin" / "pip").exists():  # the last that venv puts there
    _run(name, sys.executable, "-m", "venv", str(home))
  _run(name, str(made), "-m", "pip", "install", "--quiet", *REQUIREMENTS[name])
  done.write_text(wanted, encoding="utf-8")
  return made


def _run(name, *command):
  ended = subprocess.run(command, capture_output=True, text=True)
  if ended.returncode:
    lines = [line for line in ended.stderr.splitlines() if "ERROR" in line]
    raise Failed(
      f"{name} cannot be installed by `{' '.join(command)}`: "
      f"{' '.join(lines) or ended.stderr[-500:]} (is there a network, and "
      "does pip know an index?)"
    )
