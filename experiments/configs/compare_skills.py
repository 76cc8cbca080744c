"""Methods on a population of skills that are learned one by one.

  python -m experiments.compare --task=skills \
    --recipes=uniform,vade,vigor --seeds=8 --workdir=runs/compare_skills

Device: CPU, 2 shared cores. Wall time: about 0.3 s a seed after 10 to 20 s of
compilation a method; 40 minutes for 43 methods on 24 seeds with other jobs on
the machine. Result: docs/results.md (there with 512 slots, but for the methods
that act at the slot); uniform went from 0.215 to 0.871.
"""

import ml_collections

from experiments.configs import compare_population


def get_config() -> ml_collections.ConfigDict:
  """The population's fields, with prompts that share no easy direction."""
  config = compare_population.get_config()
  config.task = ml_collections.ConfigDict()
  config.task.name = "skills"
  config.task.num_prompts = 1024
  config.task.skills = 8
  config.task.num_eval = 256
  config.task.seed = 0
  config.budget = 65536
  config.update_norm = 0.1  # of 64 parameters, 8 a skill
  return config
