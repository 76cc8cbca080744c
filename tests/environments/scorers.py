"""Scorers that misbehave, for worker processes: no heavy imports here."""

import ctypes
import os
import signal
import sys
import time


def length(prompt, completion, answer):
  return float(len(completion))


def by_completion(prompt, completion, answer):
  """Does what the completion says; otherwise 1 for the right answer."""
  if completion == "sleep":
    time.sleep(1e6)
  if completion == "spin":
    while True:
      pass
  if completion == "memory":
    return float(len(bytearray(50 * 10**9)))
  if completion == "exit":
    os._exit(0)
  if completion == "segfault":
    ctypes.string_at(0)
  if completion == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
  if completion == "raise":
    raise KeyError(prompt)
  if completion == "sys.exit":
    sys.exit()
  if completion == "string":
    return "1"
  if completion == "nan":
    return float("nan")
  if completion == "huge":
    return 10**400
  if completion == "print":
    print("x" * 10**6, flush=True)
  if completion == "forge":
    # Lines of its own on every descriptor it can find.
    for fd in range(3, 20):
      try:
        os.write(fd, b'{"id": 77, "value": 1.0}\n')
      except OSError:
        pass
    return 1.0
  return float(completion == answer)


def sleeps(prompt, completion, answer):
  time.sleep(1e6)


def allocates(prompt, completion, answer):
  return float(len(bytearray(50 * 10**9)))


def exits(prompt, completion, answer):
  os._exit(0)


def returns_text(prompt, completion, answer):
  return "right"


def imported_jax(prompt, completion, answer):
  return float("jax" in sys.modules)


def some_hang(prompt, completion, answer):
  """Hangs on completions that start with 0, 1 or 2."""
  if completion[:1] in ("0", "1", "2"):
    time.sleep(1e6)
  return float(len(completion) % 2)


class Unloadable:
  """Can be pickled, not unpickled."""

  def __reduce__(self):
    return _refuse, ()

  def __call__(self, prompt, completion, answer):
    return 0.0


def _refuse():
  raise RuntimeError("not unpickled")
