"""How does a worker hear what to time, and say how long it took?

Lines of JSON. The client sends a job, then {"go": true} for every call, then
{"go": false}. The worker answers the job with {"ready": true} once it is built,
each call with its seconds and tokens, the end with its peak memory, and
whatever goes wrong with {"error": ...}, after which it is gone. So one process
works at a time: between an answer and the next word a worker waits.
"""

import json
import os
import resource
import sys
import time
import traceback


class Ended(Exception):
  """The client wants no more calls."""


class Clock:
  """What a job's calls are timed by, on the client's word."""

  def __init__(self, lines, answer):
    self._lines, self._answer = lines, answer
    self._began = None

  def begin(self) -> bool:
    """Waits for the word; False where there are to be no more calls."""
    if self._began is None:
      self._answer({"ready": True})
    if not json.loads(next(self._lines))["go"]:
      return False
    self._began = time.perf_counter()
    return True

  def end(self, tokens) -> None:
    """Answers what the call took.

    Args:
      tokens: () -> useful tokens of the call; runs after the clock stopped.
    """
    seconds = time.perf_counter() - self._began
    self._answer({"seconds": seconds, "tokens": float(tokens())})


def serve(jobs: dict, versions: dict) -> None:
  """Works until the client hangs up.

  Args:
    jobs: kind -> function of (job, clock), which calls `begin` and `end` in
      turns until `begin` is False, or raises `Ended`.
    versions: of the packages, noted with every result.
  """
  # What libraries print must not stand between the answers.
  answers = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)

  def answer(message):
    answers.write(json.dumps(message) + "\n")
    answers.flush()

  lines = iter(sys.stdin.readline, "")
  for line in lines:
    job = json.loads(line)
    try:
      jobs[job["kind"]](job, Clock(lines, answer))
    except Ended:
      pass
    except Exception as error:
      traceback.print_exc()
      answer({"error": f"{type(error).__name__}: {error}"})
      return
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    megabytes = peak / (2**20 if sys.platform == "darwin" else 1024)
    answer({"peak_memory_mb": megabytes, "versions": versions})


def fastest(choices, call):
  """The choice whose second call takes least; the first compiles."""

  def seconds(choice):
    call(choice)
    began = time.perf_counter()
    call(choice)
    return time.perf_counter() - began

  return choices[0] if len(choices) == 1 else min(choices, key=seconds)
