"""Countdown: write an expression from the given numbers that hits the target.

  python -m experiments.train --config=experiments/configs/countdown.py \
    --workdir=runs/countdown

Device: CPU, 2 cores. Wall time: not run. Result: not run.
"""

import ml_collections

from experiments.configs import quickstart


def get_config() -> ml_collections.ConfigDict:
  """The quickstart's fields with another task."""
  config = quickstart.get_config()
  config.task = ml_collections.ConfigDict()
  config.task.name = "countdown"
  config.task.numbers = 3
  config.task.largest = 9
  config.task.per_grade = 512
  config.task.eval_per_grade = 64
  return config
