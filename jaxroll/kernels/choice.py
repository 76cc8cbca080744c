"""Which of a kernel's two implementations runs? The backend's own, or any.

"xla" is plain JAX and runs everywhere; "pallas" is written for a TPU's units
and memories, and elsewhere runs in Pallas' interpreter only.
"""

import jax

IMPLEMENTATIONS = ("pallas", "xla")


def implementation(name: str | None = None) -> str:
  """The implementation to run: `name`, or what suits the default backend.

  A program that is compiled ahead of time for another backend must say
  `name`: the default backend is this process's.

  Args:
    name: "pallas", "xla", or None: "pallas" on TPU, "xla" elsewhere.

  Returns:
    "pallas" or "xla".

  Raises:
    ValueError: another name.

  >>> implementation("pallas")
  'pallas'
  """
  if name is None:
    return "pallas" if jax.default_backend() == "tpu" else "xla"
  if name not in IMPLEMENTATIONS:
    raise ValueError(
      f"implementation={name!r}: one of {IMPLEMENTATIONS}, or None for what "
      "suits the backend"
    )
  return name


def round_up(x: int, multiple: int) -> int:
  """The least multiple that is not less than x.

  >>> round_up(17, 16)
  32
  """
  return -(-x // multiple) * multiple
