"""Does a policy's program do what was asked?

The program of a completion runs in a fresh interpreter (standard library
only) that the kernel confines; `_sandboxed.py` says to what. It has an empty
temporary directory, no environment, no network, limited CPU, memory, output
and wall time, and cannot start processes, send signals or change a file.

It passes if all tests do: lines of asserts that run after it (as in Chen et
al. 2021, 2107.03374), or pairs of input and expected output, each in a process
of its own (as in Hendrycks et al. 2021, 2105.09938).

Linux on x86_64 or aarch64 only. Elsewhere a verifier is refused: there is no
mode that runs a program unconfined.

Note: asserts run in the program's process, after it. A program that replaces
what they call, or `assert`'s builtins, passes wrongly. Expected outputs never
enter the program's process: prefer pairs where the reward may be gamed.
"""

import contextlib
import json
import math
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxroll.environments import _sandboxed

_PROGRAM = pathlib.Path(_sandboxed.__file__)
_FENCED = re.compile(
  r"```[ \t]*(?:(?:python3?|py)[ \t]*)?\n(.*?)```", re.DOTALL
)


class Limits(NamedTuple):
  """What a program may use.

  Attributes:
    seconds: wall time of all its tests together.
    cpu: CPU seconds of a process, rounded up.
    memory: bytes of address space, >= 2**26.
    output: bytes it may write to standard output, and to standard error.
  """

  seconds: float = 6.0
  cpu: float = 4.0
  memory: int = 2**29
  output: int = 2**20


class Result(NamedTuple):
  """How a program ended.

  Attributes:
    passed: its exit code is 0 and all asserts held.
    code: exit code; minus the signal that ended it; None where it was late.
    stdout, stderr: what it wrote, undecodable bytes replaced.
    hidden: files outside the libraries were unreadable to it.
  """

  passed: bool
  code: int | None
  stdout: str
  stderr: str
  hidden: bool


def run(
  source: str,
  *,
  stdin: str = "",
  asserts: Sequence[str] = (),
  limits: Limits = Limits(),  # noqa: B008
) -> Result:
  """Runs a program in the sandbox.

  Args:
    source: Python.
    stdin: its standard input.
    asserts: lines that run after it, in its names.
    limits: what it may use.

  Returns:
    Result. Whatever a program does, it is one; nothing is raised.

  Raises:
    RuntimeError: where this machine cannot confine it: it has not run.

  Example:
    >>> run("print(int(input()) + 1)", stdin="1").stdout
    '2\\n'
  """
  if _sandboxed.machine() is None:
    raise RuntimeError(
      f"platform {sys.platform!r}: programs are confined on Linux (x86_64, "
      "aarch64) only: run the verifier there"
    )
  token = secrets.token_hex(16)
  confined = {
    "RLIMIT_CPU": math.ceil(limits.cpu),
    "RLIMIT_AS": limits.memory,
    "RLIMIT_FSIZE": limits.output,
    "RLIMIT_NOFILE": 64,
    "RLIMIT_NPROC": 0,
    "RLIMIT_CORE": 0,
  }
  with contextlib.ExitStack() as stack:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    plan, tests, result, given, out, err = (
      stack.enter_context(tempfile.TemporaryFile()) for _ in range(6)
    )
    _write(plan, json.dumps([confined, source]))
    _write(tests, json.dumps([token, list(asserts)]))
    _write(given, stdin)
    fds = [file.fileno() for file in (plan, tests, result)]
    process = subprocess.Popen(
      [sys.executable, "-I", "-S", "-B", str(_PROGRAM), *map(str, fds)],
      stdin=given,
      stdout=out,
      stderr=err,
      cwd=folder,
      env={"LANG": "C.UTF-8", "PYTHONUTF8": "1"},
      pass_fds=fds,
      start_new_session=True,
    )
    try:
      code = process.wait(limits.seconds)
    except subprocess.TimeoutExpired:
      code = None
    finally:
      with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
      process.wait()
    head, _, said = _read(result, 1000).partition("\n")
    if code == _sandboxed.EXIT_UNSUPPORTED and head.startswith("unsupported"):
      raise RuntimeError(f"this machine cannot confine a program: {head}")
    return Result(
      passed=code == 0 and (said == token or not asserts),
      code=code,
      stdout=_read(out, limits.output),
      stderr=_read(err, limits.output),
      hidden=head == "hidden",
    )


def program(completion: str) -> str:
  """The program of a completion: its last fenced block, else all of it.

  Example:
    >>> program("Here it is:\\n```python\\nprint(1)\\n```")
    'print(1)\\n'
  """
  blocks = _FENCED.findall(completion)
  return blocks[-1] if blocks else completion


class CodeScorer(NamedTuple):
  """A scorer of programs for `host_task` or `workers.Pool`; can be pickled."""

  limits: Limits

  @property
  def seconds(self) -> float:
    """The longest that an answer takes; a pool's time limit is longer."""
    return self.limits.seconds

  def __call__(self, prompt: str, completion: str, answer: Any) -> float:
    """1 if all tests pass: asserts (texts) or pairs (input, output)."""
    del prompt
    tests = [answer] if isinstance(answer, str) else list(answer)
    if not tests:
      raise ValueError("answer has no tests: give at least one")
    source = program(completion)
    if all(isinstance(test, str) for test in tests):
      return float(run(source, asserts=tests, limits=self.limits).passed)
    # Together they may take no longer than one alone.
    end = time.monotonic() + self.limits.seconds
    for given, expected in tests:
      left = max(end - time.monotonic(), 0.0)
      limits = self.limits._replace(seconds=left)
      result = run(source, stdin=given, limits=limits)
      if not result.passed or _lines(result.stdout) != _lines(expected):
        return 0.0
    return 1.0


def scorer(
  *,
  seconds: float = 6.0,
  cpu: float = 4.0,
  memory: int = 2**29,
  output: int = 2**20,
) -> CodeScorer:
  """A scorer of Python programs.

  The answer of a prompt is its tests: texts of asserts, or pairs (standard
  input, standard output), compared line by line up to spaces at the ends.

  Args:
    seconds: wall time of all tests of an answer together.
    cpu: CPU seconds of a process.
    memory: bytes of a process.
    output: bytes that it may write.

  Returns:
    CodeScorer: 1.0 if all tests pass, else 0.0; a program that is late or
    crashes is wrong, not unscorable.

  Raises:
    ValueError: for limits out of range.
    RuntimeError: where this machine cannot confine a program.

  Example:
    >>> check = scorer()
    >>> check("", "def f(x):\\n  return x + 1", ["assert f(1) == 2"])
    1.0
    >>> check("", "print(input()[::-1])", [("abc", "cba"), ("ab", "ab")])
    0.0
  """
  limits = Limits(seconds, cpu, memory, output)
  least = Limits(0.1, 0.1, 2**26, 1)
  for name, value, smallest in zip(Limits._fields, limits, least):
    if not (math.isfinite(value) and value >= smallest):
      raise ValueError(f"{name}={value}: must be finite and >= {smallest}")
  run("", limits=Limits())  # Refuses here what it would refuse in every row.
  return CodeScorer(limits)


def _write(file, text):
  # A policy's text may hold half of a surrogate pair.
  file.write(text.encode("utf-8", "replace"))
  file.seek(0)


def _read(file, most):
  file.seek(0)
  return file.read(most).decode("utf-8", "replace")


def _lines(text):
  return [line.rstrip() for line in text.rstrip().splitlines()]
