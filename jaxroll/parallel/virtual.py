"""Many devices where there is one CPU? Settings without which they starve."""

import os

import jax

_FLAG = "--xla_force_host_platform_device_count"
# A device that waits in a collective holds a thread, and may wait in several
# that do not depend on each other. With as many threads as devices, which is
# what XLA takes, the last device may find none left: all wait, then XLA aborts.
_THREADS_PER_DEVICE = 8


def virtual_devices(num: int | None = None) -> None:
  """Prepares this process for virtual CPU devices; for tests and trials.

  Gives XLA's CPU runtime threads enough for every device to wait in several
  collectives at once, and lets one program finish before the next begins.
  Must be called before the first use of a device; a variable that is set
  already (`XLA_FLAGS`' number of devices, `NPROC`) is left as it is.

  Args:
    num: virtual devices, >= 1; None reads it from `XLA_FLAGS`, and does
      nothing where that does not ask for any.

  Raises:
    ValueError: where `num` is below 1, or `XLA_FLAGS` asks for another number.

  Example:
    >>> from jaxroll import parallel
    >>> parallel.virtual_devices(8)
    >>> mesh = parallel.make_mesh(data=2, fsdp=2, tensor=2)
  """
  flags = os.environ.get("XLA_FLAGS", "").split()
  asked = [flag.partition("=")[2] for flag in flags if flag.startswith(_FLAG)]
  if num is None and not asked:
    return
  if num is not None and num < 1:
    raise ValueError(f"virtual_devices(num={num}): must be at least 1")
  if num is not None and asked and int(asked[-1]) != num:
    raise ValueError(
      f"virtual_devices(num={num}), but XLA_FLAGS has {_FLAG}={asked[-1]}: "
      "unset one of them"
    )
  if not asked:
    os.environ["XLA_FLAGS"] = " ".join([*flags, f"{_FLAG}={num}"])
  number = int(asked[-1]) if asked else num
  # What XLA reads as the number of cores when it makes its pool of threads.
  os.environ.setdefault("NPROC", str(_THREADS_PER_DEVICE * number))
  jax.config.update("jax_cpu_enable_async_dispatch", False)
