"""Do two records agree, and do all processes?"""

from collections.abc import Mapping

import jax
import numpy as np
from jax.experimental import multihost_utils

_ABSENT = "<absent>"


def differences(saved: Mapping, current: Mapping) -> list[str]:
  """Returns a line for each name whose values differ.

  Example:
    >>> differences({"lr": 1, "n": 9}, {"lr": 2, "n": 9})
    ['  lr: saved 1, now 2']
  """
  return [
    f"  {n}: saved {saved.get(n, _ABSENT)}, now {current.get(n, _ABSENT)}"
    for n in sorted({*saved, *current})
    if saved.get(n, _ABSENT) != current.get(n, _ABSENT)
  ]


def processes(flag: bool) -> list[int]:
  """Returns the processes that gave True.

  All must call; where it returns, all have come so far.

  Example:
    >>> processes(True), processes(False)
    ([0], [])
  """
  if jax.process_count() == 1:
    return [0] if flag else []
  flags = multihost_utils.process_allgather(np.int32(flag))
  return np.flatnonzero(flags).tolist()
