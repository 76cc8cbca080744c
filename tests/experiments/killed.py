"""experiments.train, killed by SIGKILL at a moment that does not vary.

python -m tests.experiments.killed --workdir=... --moment=saving

warm_start  before the first checkpoint
between     step 3 is recorded; the checkpoint of step 2 is the newest
saving      all of step 4's checkpoint is written, under its temporary name
saved       right after the checkpoint of step 6
"""

import os
import pathlib
import signal
import sys
import time

from absl import flags

from experiments import build, cli, train
from jaxroll import checkpoint, metrics

_MOMENT = flags.DEFINE_string("moment", None, "See above.", required=True)


def die():
  os.kill(os.getpid(), signal.SIGKILL)


def at_warm_start():
  build.warm_start = lambda *_: lambda state: die()


def at_between():
  write = metrics.MetricsWriter.write

  def write_and_die(self, step, record):
    write(self, step, record)
    if step == 3:
      while not pathlib.Path(train._WORKDIR.value, "checkpoints/2").exists():
        time.sleep(0.01)  # it is written while the steps go on
      die()

  metrics.MetricsWriter.write = write_and_die


def at_saving():
  def hook(event, arguments):
    if event == "os.rename":
      source = pathlib.Path(os.fsdecode(arguments[0])).name
      if source.startswith("4.orbax-checkpoint-tmp"):
        die()

  sys.addaudithook(hook)


def at_saved():
  save = checkpoint.Checkpoints.save

  def save_and_die(self, step, *arguments, **options):
    save(self, step, *arguments, **options)
    if step == 6:
      self.wait()
      die()

  checkpoint.Checkpoints.save = save_and_die


def main():
  globals()[f"at_{_MOMENT.value}"]()
  train.main()


if __name__ == "__main__":
  cli.launch(main)
