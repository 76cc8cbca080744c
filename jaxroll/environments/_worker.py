"""What does a worker process do? (Run as a program, by its path.)

It takes a scorer once and then requests, one at a time, over the socket whose
descriptor is its argument, and answers each with one line of JSON: a score or
what went wrong. Requests come from the trainer and are pickles; answers go to
the trainer, which unpickles nothing that a worker wrote.

Only the standard library is imported: a worker starts in a few hundredths of
a second, and JAX, which the package's own `__init__` imports, stays out.
"""

import importlib
import json
import os
import pickle
import resource
import signal
import socket
import sys
import traceback
import types

JAXROLL_WORKER = True  # Checks that need isolation look for it.
_PACKAGE = "jaxroll.environments"
LARGEST = 3.4028234663852886e38  # fp32
_TEXT = 2000  # most characters of an error that are sent


def number(value) -> float:
  """The scorer's result as a number that is finite in fp32, or ValueError.

  Example:
    >>> number(True), number(0.25)
    (1.0, 0.25)
  """
  kept = value
  if getattr(value, "ndim", None) == 0 and hasattr(value, "dtype"):
    kept = value.item()  # A NumPy or JAX scalar.
  if isinstance(kept, (bool, int, float)):
    # NaN compares false. An integer is compared exactly, however large.
    if -LARGEST <= kept <= LARGEST:
      return float(kept)
  raise ValueError(
    f"the scorer returned {repr(value)[:200]}, not a finite number"
  )


def _read(stream):
  """The next pickled message, or None where the trainer has gone."""
  head = stream.read(8)
  if len(head) < 8:
    return None
  body = stream.read(int.from_bytes(head, "big"))
  return pickle.loads(body)


def _load(pickled):
  """The scorer, without the imports of this package where that is enough."""
  package = types.ModuleType(_PACKAGE)
  package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
  importlib.import_module(_PACKAGE.partition(".")[0])
  sys.modules[_PACKAGE] = package
  try:
    return pickle.loads(pickled)
  except (ImportError, AttributeError):
    # It names something that the package's `__init__` imports.
    for name in [name for name in sys.modules if name.startswith(_PACKAGE)]:
      del sys.modules[name]
    return pickle.loads(pickled)


def _answer(scorer, request):
  """A reply's fields; `spent` asks for another process."""
  # SystemExit too: a scorer that calls exit() has not scored.
  try:
    result = scorer(*pickle.loads(request))
  except (Exception, SystemExit) as error:
    # After one of the first two the interpreter may not be sound.
    spent = isinstance(error, (MemoryError, RecursionError))
    text = repr(error)[:_TEXT]
    return {"kind": "exception", "error": text, "spent": spent}
  try:
    return {"value": number(result)}
  except Exception as error:
    return {"kind": "value", "error": str(error)[:_TEXT]}


def main() -> None:
  """Serves requests until the trainer closes its end of the socket."""
  connection = socket.socket(fileno=int(sys.argv[1]))
  stream = connection.makefile("rb")

  def reply(message):
    connection.sendall(json.dumps(message).encode() + b"\n")

  sys.path[:], memory, seconds, pickled = _read(stream)
  resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
  resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
  try:
    scorer = _load(pickled)
    # What it needs long for, before the first time limit begins.
    getattr(scorer, "load", lambda: None)()
  except BaseException:
    reply({"id": -1, "error": traceback.format_exc()[-_TEXT:]})
    return
  reply({"id": -1})
  while (message := _read(stream)) is not None:
    number_of_request, request = message
    # The trainer ends a late worker; this ends one whose trainer has died.
    signal.setitimer(signal.ITIMER_REAL, 2 * seconds + 10)
    answer = _answer(scorer, request)
    signal.setitimer(signal.ITIMER_REAL, 0)
    reply({"id": number_of_request, **answer})


if __name__ == "__main__":
  main()
