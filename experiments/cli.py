"""How does an experiment's binary start, and how does it say no?

A config that cannot run, or a workdir that belongs to another run, is the
user's to mend: one line on standard error and exit code 2. Everything else is
a fault of the run and keeps its traceback.
"""

import contextlib
import functools
import subprocess
import sys
from collections.abc import Callable

import jax
from absl import app, flags, logging
from ml_collections import config_flags

from jaxroll import parallel

_EXPLICIT = ("coordinator", "num_processes", "process_id")


class Refused(ValueError):
  """A config, or a workdir for it, that no run can have."""


@contextlib.contextmanager
def refusals():
  """Within it a ValueError is the config's fault: it becomes a `Refused`."""
  try:
    yield
  except ValueError as error:
    raise Refused(str(error)) from error


def config_flag(path: str) -> flags.FlagHolder:
  """Defines --config, a file whose fields are flags too: --config.field=value.

  Args:
    path: the file where the flag is not given.
  """
  # The default's fields are read here already, not with the other flags.
  with _fields():
    return config_flags.DEFINE_config_file("config", path, "What to run.")


def define_processes() -> None:
  """Defines the flags of a binary that can run as several processes."""
  flags.DEFINE_enum(
    "distributed",
    "off",
    ["off", "auto"],
    "auto: this is one of several processes, and the cluster tells which (TPU "
    "pods, GKE, Slurm, Open MPI).",
  )
  flags.DEFINE_string(
    "coordinator", None, "host:port of process 0, where no cluster tells."
  )
  flags.DEFINE_integer("num_processes", None, "How many there are.")
  flags.DEFINE_integer("process_id", None, "Which one this is, from 0.")
  flags.DEFINE_integer(
    "heartbeat_timeout",
    100,
    "Seconds without a sign of life after which a process counts as dead, "
    "which ends the others.",
  )


def launch(main: Callable) -> None:
  """Runs a binary's main after the flags are read; never returns.

  Args:
    main: () -> None.
  """
  app.run(functools.partial(_guarded, main), flags_parser=_parse)


def _guarded(main, argv):
  if len(argv) > 1:
    _exit(f"unknown arguments {argv[1:]}: write --config.field=value")
  parallel.virtual_devices()  # where XLA_FLAGS asks for some
  if not flags.FLAGS["verbosity"].present:
    logging.set_verbosity(logging.WARNING)  # orbax tells much at INFO
  try:
    with _processes():
      main()
  except Refused as error:
    _exit(error)


@contextlib.contextmanager
def _processes():
  """Starts what the flags of `define_processes` ask for, if anything."""
  values = flags.FLAGS.flag_values_dict()
  explicit = {name: values.get(name) for name in _EXPLICIT}
  auto = values.get("distributed") == "auto"
  if not auto and set(explicit.values()) == {None}:
    yield
    return
  if auto and set(explicit.values()) != {None}:
    given = [f"--{name}" for name, x in explicit.items() if x is not None]
    _exit(f"--distributed=auto and {', '.join(given)}: leave one of them out")
  with refusals():
    parallel.start_processes(
      **explicit, heartbeat_timeout=values["heartbeat_timeout"]
    )
  this, number = jax.process_index(), jax.process_count()
  if this and not flags.FLAGS["verbosity"].present:
    logging.set_verbosity(logging.ERROR)  # the first one says it already
  with _last_words(
    f"error: process {this} of {number} has ended before its run did. The "
    "cause stands above, a process that died before it with its number; start "
    f"all {number} again with --resume: the run goes on from its last "
    "checkpoint"
  ):
    yield


@contextlib.contextmanager
def _last_words(text):
  """Says something if the block is not left, even if this process is killed.

  JAX ends a process by a signal where another one has died.
  """
  code = "import sys; sys.stdin.read() or print(sys.argv[1], file=sys.stderr)"
  witness = subprocess.Popen(
    [sys.executable, "-S", "-c", code, text],
    stdin=subprocess.PIPE,
    stdout=subprocess.DEVNULL,
    text=True,
    start_new_session=True,  # what is sent to our terminal is not for it
  )
  try:
    yield
  except Refused:
    witness.communicate("refused")
    raise
  witness.communicate("done")


def _parse(argv):
  with _fields():
    return app.parse_flags_with_usage(argv)


@contextlib.contextmanager
def _fields():
  try:
    yield
  except (AttributeError, KeyError) as error:
    # Its text is an exception within an exception: quotes are escaped.
    reason = str(error).replace("\\n", " ").replace("\\", "").strip('"')
    _exit(f"--config has no such field: {' '.join(reason.split())}")


def _exit(message):
  print(f"error: {message}", file=sys.stderr)
  sys.exit(2)
