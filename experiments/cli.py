"""How does an experiment's binary start, and how does it say no?

A config that cannot run, or a workdir that belongs to another run, is the
user's to mend: one line on standard error and exit code 2. Everything else is
a fault of the run and keeps its traceback.
"""

import contextlib
import functools
import sys
from collections.abc import Callable

from absl import app, flags, logging
from ml_collections import config_flags

from jaxroll import parallel


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
    main()
  except Refused as error:
    _exit(error)


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
