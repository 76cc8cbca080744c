"""May a run go on in a workdir, and is it then bitwise the same run?"""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from absl import logging
from etils import epath

from jaxroll import metrics
from jaxroll.checkpoint import agree


def check_config(
  saved: Mapping, current: Mapping, *, free: Sequence[str] = ()
) -> None:
  """Refuses to resume a run under another config.

  Args:
    saved: nested dict out of a checkpoint's metadata.
    current: nested dict of this run, JSON values.
    free: dotted names of fields, or of whole sections, that may change.

  Raises:
    ValueError: names every field that differs and is not free.

  Example:
    >>> check_config({"lr": 1, "n": 9}, {"lr": 1, "n": 99}, free=("n",))
  """
  bound = [
    {
      name: value
      for name, value in metrics.flatten(json.loads(json.dumps(config))).items()
      if not any(f"{name}.".startswith(f"{field}.") for field in free)
    }
    for config in (saved, current)
  ]
  lines = agree.differences(*bound)
  if lines:
    raise ValueError(
      "the config differs from the one this run was started with:\n"
      + "\n".join(lines)
      + "\nset these fields back, or start in a new --workdir; free to change: "
      + (", ".join(free) or "none")
    )


def environment(mesh: jax.sharding.Mesh | None = None) -> dict[str, Any]:
  """Returns what besides config and code decides a run's last bits."""
  about = {
    "python": platform.python_version(),
    "jax": jax.__version__,
    "jaxlib": jax.lib.__version__,
    "xla_flags": os.environ.get("XLA_FLAGS", ""),
    "device_kind": jax.devices()[0].device_kind,
    "device_count": jax.device_count(),
    "process_count": jax.process_count(),
  }
  return about if mesh is None else about | {"mesh": dict(mesh.shape)}


def warn_environment(saved: Mapping[str, Any], mesh=None) -> list[str]:
  """Warns where this environment is not the one a checkpoint was written in.

  Args:
    saved: `environment(mesh)` of the run that saved.
    mesh: of this run.

  Returns:
    A line for each difference; with none of them the resume is bitwise.
  """
  lines = agree.differences(saved, environment(mesh))
  if lines:
    logging.warning(
      "the resume is no longer bitwise, and equal within rounding if only "
      "devices changed; the environment has changed:\n%s",
      "\n".join(lines),
    )
  return lines


def prepare_workdir(workdir, *, resume: bool) -> epath.Path:
  """Creates a run's directory, or makes sure that it may be written to.

  Args:
    workdir: the run's directory, which all processes of a run see.
    resume: whether it may hold an earlier part of the run. A job that may be
      killed at any time always passes True: without a step it starts afresh.

  Returns:
    The directory's absolute path.

  Raises:
    ValueError: it cannot be made, it holds files and `resume` is False, or some
      processes do not see it; on every process, before any has written.
  """
  path = epath.Path(os.fspath(workdir)).absolute()
  wrong = None
  if jax.process_index() == 0:
    try:
      path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
      wrong = error
  if agree.processes(wrong is not None):
    raise ValueError(
      f"{path} cannot be made{f' ({wrong})' if wrong else ''}: choose another "
      "--workdir"
    )
  taken = not resume and path.is_dir() and any(path.iterdir())
  if agree.processes(taken):
    raise ValueError(
      f"{path} is not empty: pass --resume to continue it or choose another "
      "--workdir"
    )
  if blind := agree.processes(not path.is_dir()):
    raise ValueError(
      f"processes {blind} do not see {path}, which process 0 has made: choose "
      "a --workdir on a file system that all share"
    )
  return path
