"""Programs in the sandbox: what they may do, and what is right."""

import pathlib
import pickle
import re
import time

import pytest

from jaxroll.environments import _sandboxed, sandbox, workers

pytestmark = pytest.mark.skipif(
  _sandboxed.machine() is None, reason="programs are confined on Linux only"
)
LIMITS = sandbox.Limits(seconds=5.0, cpu=1.0)


def run(source, **arguments):
  return sandbox.run(source, limits=LIMITS, **arguments)


def test_an_ordinary_program():
  result = run(
    "import collections, dataclasses, hashlib, random, re, sys\n"
    "@dataclasses.dataclass\n"
    "class A:\n  x: int\n"
    "print(A(int(input())), file=sys.stderr)\n"
    "print(sorted(sys.stdin.read().split()))\n",
    stdin="3\nb a\n",
  )
  assert result[:4] == (True, 0, "['a', 'b']\n", "A(x=3)\n")


def test_it_is_alone():
  result = run(
    "import os, sys\n"
    "print(os.listdir('.'), sorted(os.environ), sys.argv)\n"
    "print(os.getcwd())"
  )
  first, folder = result.stdout.splitlines()
  assert first == "[] ['LANG', 'PYTHONUTF8'] ['program.py']"
  assert not pathlib.Path(folder).exists()
  assert run("import numpy").code == 1


# What must fail, with the error it fails with.
FORBIDDEN = {
  "import socket; socket.socket()": "PermissionError",
  "import urllib.request as r; r.urlopen('http://127.0.0.1')": "URLError",
  "open('x', 'w')": "PermissionError",
  "import os; os.mkdir('x')": "PermissionError",
  "import os; os.symlink('x', 'y')": "PermissionError",
  "import os; os.remove('{target}')": "PermissionError",
  "import os; os.rename('{target}', 'x')": "PermissionError",
  "import os; os.chmod('{target}', 0)": "PermissionError",
  "import os; os.truncate('{target}', 0)": "PermissionError",
  "import os; os.utime('{target}')": "PermissionError",
  "open('{target}', 'a')": "PermissionError",
  "import os; os.fork()": "PermissionError",
  "import os; os.posix_spawn('/bin/true', ['true'], {{}})": "PermissionError",
  "import subprocess; subprocess.run(['true'])": "PermissionError",
  "import os; os.execv('/bin/true', ['true'])": "PermissionError",
  "import threading as t; t.Thread(target=print).start()": "RuntimeError",
  "import os; os.kill(os.getppid(), 0)": "PermissionError",
  "import os; os.setsid()": "PermissionError",
  "import os; os.setpriority(0, os.getppid(), 5)": "PermissionError",
  "import os; os.sched_setaffinity(os.getppid(), [0])": "PermissionError",
  "import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, 1)": "PermissionError",
  "import resource as r; r.prlimit(1, r.RLIMIT_CPU)": "PermissionError",
  "bytearray(50 * 10**9)": "MemoryError",
}


@pytest.mark.parametrize("source, error", FORBIDDEN.items())
def test_forbidden(source, error, tmp_path):
  target = tmp_path / "target"
  target.write_text("kept")
  before = target.stat()
  result = run(source.format(target=target))
  assert not result.passed
  assert result.stderr.splitlines()[-1].partition(":")[0].endswith(error)
  after = target.stat()
  assert target.read_text() == "kept"
  assert (after.st_mode, after.st_mtime_ns) == (
    before.st_mode,
    before.st_mtime_ns,
  )


def test_other_files_are_hidden(tmp_path):
  (tmp_path / "secret").write_text("secret")
  result = run(f"print(open('{tmp_path}/secret').read())")
  if not result.hidden:
    pytest.skip("this kernel has no Landlock")
  assert "Permission denied" in result.stderr
  assert not result.stdout
  for path in ("/etc/passwd", "/proc/self/environ", "/root", "/"):
    assert run(f"import os; open('{path}') or os.listdir('{path}')").code == 1


@pytest.mark.parametrize(
  "source",
  [
    "while True: pass",
    "import time; time.sleep(1000)",
    "import signal, time\n"
    "for s in range(1, 65):\n"
    "  try: signal.signal(s, signal.SIG_IGN)\n"
    "  except (OSError, ValueError): pass\n"
    "while True: time.sleep(1)",
  ],
)
def test_what_does_not_end_is_ended(source):
  start = time.monotonic()
  limits = sandbox.Limits(seconds=1.5, cpu=1.0)
  assert not sandbox.run(source, limits=limits).passed
  assert time.monotonic() - start < 4


def test_output_is_cut():
  limits = sandbox.Limits(output=1000)
  result = sandbox.run("while True: print('x' * 99, flush=True)", limits=limits)
  assert len(result.stdout) == 1000
  assert not result.passed


@pytest.mark.parametrize(
  "source",
  [
    "import os; os.abort()",
    "raise SystemExit(3)",
    "import ctypes; ctypes.string_at(0)",
    "(",
    "\x00",
    "\ud800",
    "(" * 10_000,
  ],
)
def test_crashes_are_results(source):
  assert not run(source).passed


def test_compiled_code_is_confined_too():
  # socket(AF_INET, SOCK_STREAM, 0) through libc: errno 1.
  result = run(
    "import ctypes\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "print(libc.socket(2, 1, 0), ctypes.get_errno())"
  )
  assert result.stdout == "-1 1\n"


# --- the scorer

SQUARE = "def f(x):\n  return x * x\n"


@pytest.mark.parametrize(
  "completion, right",
  [
    (SQUARE, 1),
    (f"Here it is:\n```python\n{SQUARE}```\nas asked.", 1),
    (f"```\nf = 1\n```\nbetter:\n```py\n{SQUARE}```", 1),
    (SQUARE + "import sys; sys.exit()", 1),  # its end, not that of the tests
    (SQUARE + "import os; os._exit(0)", 0),
    ("def f(x):\n  return x + x\n", 0),
    ("def f(x):\n  raise SystemExit(0)\n", 0),
    ("import sys; print('passed'); sys.exit(0)", 0),
    ("", 0),
  ],
)
def test_asserts(completion, right):
  tests = ["assert f(2) == 4", "assert f(3) == 9"]
  assert sandbox.scorer()("", completion, tests) == right


@pytest.mark.parametrize(
  "completion, right",
  [
    ("print(int(input()) ** 2)", 1),
    ("print(int(input()) ** 2, '\\n')", 1),
    ("print(int(input()) ** 2); raise SystemExit", 1),
    ("print(int(input()) ** 2); raise SystemExit(1)", 0),
    ("print(4)", 0),
    ("print(int(input()) ** 2); print('more')", 0),
  ],
)
def test_pairs(completion, right):
  assert sandbox.scorer()("", completion, [("2", "4"), ("3", "9\n")]) == right


def test_no_tests_is_an_error():
  with pytest.raises(ValueError, match="no tests"):
    sandbox.scorer()("", "", [])


@pytest.mark.parametrize(
  "arguments", [{"seconds": 0}, {"cpu": -1}, {"memory": 1000}, {"output": 0}]
)
def test_bad_limits(arguments):
  (name, value), *_ = arguments.items()
  with pytest.raises(ValueError, match=f"{name}={value}: must be finite"):
    sandbox.scorer(**arguments)


def test_where_it_cannot_confine_it_does_not_run(monkeypatch):
  monkeypatch.setattr(_sandboxed, "machine", lambda: None)
  with pytest.raises(RuntimeError, match="on Linux"):
    sandbox.scorer()
  with pytest.raises(RuntimeError, match="on Linux"):
    run("print(1)")


def test_in_workers():
  scorer = sandbox.scorer(seconds=2.0)
  assert pickle.loads(pickle.dumps(scorer)) == scorer
  with pytest.raises(ValueError, match=re.escape("time_limit=2.0 <= 2.0")):
    workers.Pool(scorer, time_limit=2.0)
  tests = ["assert f(2) == 4"]
  with workers.Pool(scorer, workers=2, time_limit=6.0) as pool:
    scores = pool.score(
      [("", text, tests) for text in (SQUARE, "while True: pass", "x", SQUARE)]
    )
  # One that does not end is wrong, not unscorable.
  assert scores == [1.0, 0.0, 0.0, 1.0]
