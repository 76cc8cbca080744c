"""How does a killed run go on exactly where it was?

Everything a run needs lies in one directory per step: the train state (the
arrays, optimiser and typed PRNG keys included) and a JSON record (the config,
the environment, whatever the caller adds). A step directory appears by one
rename when all of it is written, so a kill leaves the previous step whole:

  run(2n) == resume(run(n), n)    bitwise, in the same environment.

A disk can damage what was once complete, so that every array is saved with a
checksum, and restoring walks back from the newest step until one holds. It
never silently starts over. Nothing saved depends on the mesh: a step restores,
bit by bit, onto other devices and another number of processes.
"""

from jaxroll.checkpoint.run import check_config as check_config
from jaxroll.checkpoint.run import environment as environment
from jaxroll.checkpoint.run import prepare_workdir as prepare_workdir
from jaxroll.checkpoint.run import warn_environment as warn_environment
from jaxroll.checkpoint.steps import Checkpoints as Checkpoints
from jaxroll.checkpoint.steps import Restored as Restored
from jaxroll.checkpoint.steps import checksums as checksums

__all__ = [
  "Checkpoints",
  "Restored",
  "check_config",
  "checksums",
  "environment",
  "prepare_workdir",
  "warn_environment",
]
