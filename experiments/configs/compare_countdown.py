"""Methods on countdown with a small transformer.

  python -m experiments.compare --task=countdown \
    --recipes=uniform,vade,vigor --seeds=8 --workdir=runs/compare_countdown

Device: CPU, 2 shared cores. Wall time: not run. Result: not run.
"""

import ml_collections

from experiments.configs import compare_arithmetic, countdown


def get_config() -> ml_collections.ConfigDict:
  """The arithmetic comparison's fields with another task."""
  config = compare_arithmetic.get_config()
  config.task = countdown.get_config().task
  return config
