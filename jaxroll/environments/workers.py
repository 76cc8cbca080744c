"""Where do verifiers run, so that no answer can stall or end training?

In `workers` processes of their own, each request with a time limit. What a
policy writes is hostile input: a parser may hang on it, exhaust the memory or
crash the interpreter. A process that is late or has died is replaced, its row
is unscorable, and the next row goes on:

    wall time of score(rows) <= (ceil(rows / workers) + 1) * time_limit

Workers are fresh interpreters, never forks of a process that runs JAX. Their
memory is limited (RLIMIT_AS), and their answers are JSON: nothing they say is
unpickled or evaluated here.
"""

import collections
import contextlib
import json
import math
import os
import pathlib
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging

from jaxroll.environments import _worker

_PROGRAM = pathlib.Path(__file__).with_name("_worker.py")
_START_LIMIT = 120.0  # seconds for the first start, imports included
_PAUSE = 0.1  # seconds before a process that did not start is tried again
_REPLY = 2**16  # most bytes of an answer

# Why a request has no score. `Pool.failures` counts them by these names.
KINDS = ("time limit", "crash", "exception", "value", "request", "no time left")

_QUIET = {
  # A scorer that imports a numeric library must not take the accelerator, or
  # all cores.
  "CUDA_VISIBLE_DEVICES": "",
  "JAX_PLATFORMS": "cpu",
  "MKL_NUM_THREADS": "1",
  "OMP_NUM_THREADS": "1",
  "OPENBLAS_NUM_THREADS": "1",
}


class Pool:
  """Worker processes that score (prompt, completion, answer).

  Example:
    >>> from jaxroll.environments import answers
    >>> with Pool(answers.scorer("numeric"), workers=1) as pool:
    ...   pool.score([("1+1=", "it is 2", "2"), ("1+1=", "3", "2")])
    [1.0, 0.0]

  Attributes:
    failures: collections.Counter, requests without a score by kind.
  """

  def __init__(
    self,
    scorer: Callable[[str, str, Any], float],
    *,
    workers: int = 2,
    time_limit: float = 10.0,
    memory_limit: int = 4 * 2**30,
    name: str = "scorer",
  ):
    """Starts the processes and waits until each has loaded the scorer.

    Args:
      scorer: (prompt, completion, answer) -> finite number; a function or
        object that a fresh interpreter can import: no lambda, nothing defined
        in a notebook. A module without heavy imports starts fastest.
      workers: processes, >= 1.
      time_limit: seconds an answer may take, > 0.
      memory_limit: bytes of address space of a process, >= 2**27.
      name: of the task, for the log.

    Raises:
      ValueError: for numbers out of range, or a scorer that workers cannot
        load, with their traceback.
    """
    if not isinstance(workers, int) or workers < 1:
      raise ValueError(f"workers={workers!r}: must be an integer >= 1")
    if not (math.isfinite(time_limit) and time_limit > 0):
      raise ValueError(f"time_limit={time_limit}: must be finite and > 0")
    if memory_limit < 2**27:
      raise ValueError(
        f"memory_limit={memory_limit}: an interpreter needs 2**27 bytes or "
        "more: raise it"
      )
    least = getattr(scorer, "seconds", 0)
    if time_limit <= least:
      raise ValueError(
        f"time_limit={time_limit} <= {least}, the scorer's own limit, at which "
        "it calls an answer wrong: raise time_limit, or lower the scorer's"
      )
    self.failures = collections.Counter()
    self._name = name
    self._time_limit = float(time_limit)
    self._requests = 0
    self._start = pickle.dumps(
      (list(sys.path), int(memory_limit), self._time_limit, _pickled(scorer))
    )
    self._workers = [_Worker(self._start) for _ in range(workers)]
    # Also where the pool is not closed: at its deletion or the program's end.
    self._finalizer = weakref.finalize(self, _end, self._workers)
    self._serve([], time.monotonic() + _START_LIMIT, starting=True)

  def score(
    self, requests: Sequence[tuple[str, str, Any]]
  ) -> list[float | None]:
    """Scores of the requests, in their order; None where there is none.

    The first failure of each kind is logged with its request.
    """
    if not self._finalizer.alive:
      raise ValueError("the pool is closed: make another")
    rounds = math.ceil(len(requests) / len(self._workers))
    end = time.monotonic() + (rounds + 1) * self._time_limit
    try:
      return self._serve(requests, end)
    except BaseException:
      # Interrupted: an answer may still be under way, to be taken for that of
      # a later request.
      for worker in self._workers:
        worker.end()
      raise

  def close(self) -> None:
    """Ends the processes."""
    self._finalizer()

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self.close()

  def _serve(self, requests, end, *, starting=False):
    """Hands out requests until all are answered or time is up."""
    results = [None] * len(requests)
    waiting = collections.deque(range(len(requests)))
    with selectors.DefaultSelector() as selector:
      while True:
        for worker in self._workers:
          if worker.ended or worker.died_idle():
            self._restart(worker)
          if worker.ready and worker.row is None and waiting:
            self._hand_out(worker, waiting.popleft(), requests)
        busy = [w for w in self._workers if w.row is not None]
        loading = [w for w in self._workers if not (w.ready or w.ended)]
        if starting and not loading or not (starting or busy or waiting):
          return results
        now = time.monotonic()
        if now >= end:
          break
        watched = busy + loading if starting or waiting else busy
        until = min([end, now + 1.0, *(w.deadline for w in busy)])
        for worker in _wait(selector, watched, until - now):
          self._hear(worker, requests, results, starting)
        for worker in busy:
          if worker.row is not None and worker.deadline <= time.monotonic():
            self._fail(requests, worker.row, "time limit", "")
            worker.end()
    if starting:
      self.close()
      raise ValueError(
        f"scorer: not loaded within {_START_LIMIT:.0f} s: shorten its imports"
      )
    for worker in self._workers:
      if worker.row is not None:
        waiting.append(worker.row)
        worker.end()
    for row in waiting:
      self._fail(requests, row, "no time left", "workers kept failing")
    return results

  def _restart(self, worker):
    """Replaces a process; where the machine refuses, the next try does."""
    worker.end()
    try:
      worker.restart(self._start)
    except OSError as error:
      logging.warning("%s: no worker process: %s", self._name, error)
      time.sleep(_PAUSE)

  def _hand_out(self, worker, row, requests):
    """Gives a request to an idle worker."""
    try:
      request = pickle.dumps(tuple(requests[row]))
    except Exception as error:  # Whatever an answer's own pickling raises.
      self._fail(requests, row, "request", repr(error))
      return
    deadline = time.monotonic() + self._time_limit
    message = pickle.dumps((self._requests, request))
    worker.take(row, self._requests, message, deadline)
    self._requests += 1

  def _hear(self, worker, requests, results, starting):
    """Reads what a worker says: it has loaded, a score, or its end."""
    reply = worker.hear()
    if reply is None:
      return
    row, number = worker.row, worker.number
    if reply.get("id") != number:
      reply = {"kind": "crash", "error": "it sent nonsense"}
      worker.end()
    if not worker.ready:
      if starting and ("error" in reply or worker.ended):
        self.close()
        raise ValueError(
          "scorer: a worker could not load it: put it in a module that can be "
          f"imported, or raise memory_limit: {reply.get('error')}"
        )
      worker.ready = "error" not in reply and not worker.ended
      if not worker.ready:
        worker.end()
        time.sleep(_PAUSE)
      return
    if reply.get("spent"):
      worker.end()
    worker.row = None
    value = reply.get("value")
    if isinstance(value, float) and abs(value) <= _worker.LARGEST:
      results[row] = value
      return
    kind = reply.get("kind")
    kind = kind if kind in KINDS else "crash"
    self._fail(requests, row, kind, _short(reply.get("error")))

  def _fail(self, requests, row, kind, error):
    """Counts a request without a score; logs the first of its kind."""
    self.failures[kind] += 1
    if self.failures[kind] == 1:
      prompt, completion, answer = map(_short, requests[row])
      logging.warning(
        "%s: unscorable (%s), further ones are only counted: prompt %s, "
        "completion %s, answer %s: %s",
        *(self._name, kind, prompt, completion, answer, error),
      )


class _Worker:
  """One process and the trainer's end of its socket."""

  def __init__(self, start):
    self.ended = True
    self.process = self.socket = None
    self.restart(start)

  def restart(self, start):
    """Starts a process and sends it its scorer; it is not ready yet."""
    self.ready, self.row, self.number = False, None, -1
    self.deadline = math.inf
    self.unsent, self.heard = b"", b""
    with contextlib.ExitStack() as stack:
      ours, theirs = map(stack.enter_context, socket.socketpair())
      # Without preexec_fn this is no fork of this process's threads.
      self.process = subprocess.Popen(
        [sys.executable, "-P", str(_PROGRAM), str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | _QUIET,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
      )
      self.socket = ours.dup()
    self.socket.setblocking(False)
    self.ended = False
    self._send(start)

  def died_idle(self):
    """Whether it was killed from outside since its last answer."""
    return self.row is None and self.ready and self.process.poll() is not None

  def take(self, row, number, message, deadline):
    """Begins a request."""
    self.row, self.number, self.deadline = row, number, deadline
    self._send(message)

  def _send(self, message):
    self.unsent += len(message).to_bytes(8, "big") + message
    self.push()

  def push(self):
    """Sends what the socket takes now."""
    # A worker that has died is noticed where its answer is read.
    with contextlib.suppress(BlockingIOError, ConnectionError):
      self.unsent = self.unsent[self.socket.send(self.unsent) :]

  def hear(self):
    """The worker's message as a dict; None where it is not complete yet."""
    try:
      part = self.socket.recv(_REPLY)
    except BlockingIOError:
      return None
    except ConnectionError:
      part = b""
    self.heard += part
    line, end, rest = self.heard.partition(b"\n")
    if not end and part and len(line) < _REPLY:
      return None
    try:
      reply = json.loads(line) if end and not rest else None
    except (ValueError, RecursionError):
      reply = None
    self.heard = b""
    if isinstance(reply, dict):
      return reply
    number = self.number
    self.end()
    code = self.process.returncode
    return {"id": number, "kind": "crash", "error": f"exit code {code}"}

  def end(self):
    """Ends the process, and what it has started."""
    if self.ended:
      return
    self.ended = True
    self.socket.close()
    # Its exit code is its own where it has already died.
    with contextlib.suppress(subprocess.TimeoutExpired):
      self.process.wait(0 if self.row is None else 0.05)
    with contextlib.suppress(ProcessLookupError):
      os.killpg(self.process.pid, signal.SIGKILL)
    self.process.wait()


def _wait(selector, watched, seconds):
  """Sends and waits; the workers that have something to say."""
  for worker in watched:
    events = selectors.EVENT_READ
    if worker.unsent:
      events |= selectors.EVENT_WRITE
    selector.register(worker.socket, events, worker)
  heard = []
  for key, events in selector.select(max(seconds, 0)):
    if events & selectors.EVENT_WRITE:
      key.data.push()
    if events & selectors.EVENT_READ:
      heard.append(key.data)
  for worker in watched:
    selector.unregister(worker.socket)
  return heard


def _end(workers):
  for worker in workers:
    worker.end()


def _pickled(scorer):
  """The scorer as a pickle that a fresh interpreter can load."""
  try:
    made = pickle.dumps(scorer)
  except Exception as error:
    raise ValueError(
      f"scorer={scorer!r} cannot be sent to workers: define it in a module, "
      f"not inside a function: {error}"
    ) from error
  if b"__main__" in made:
    raise ValueError(
      f"scorer={scorer!r} is defined in __main__, which workers do not run: "
      "move it into a module that can be imported"
    )
  return made


def _short(value):
  text = repr(value)
  return text if len(text) <= 500 else f"{text[:500]}..."
