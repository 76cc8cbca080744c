"""Methods on prompts whose solve rates are known exactly; seconds a seed.

  python -m experiments.compare --task=population \
    --recipes=uniform,vade,vigor --seeds=8 --workdir=runs/compare

Device: CPU, 2 shared cores. Wall time: 80 s with other jobs on the machine,
nearly all of it compilation. Result: uniform 0.894 from 0.316; vade +0.0031
[+0.0028, +0.0034] and vigor -0.0062 [-0.0067, -0.0057], both within the margin
of 0.02, though 67 % and 65 % of their rollouts are in mixed groups and 39 % of
uniform's.
"""

import ml_collections

from experiments.configs import quickstart


def get_config() -> ml_collections.ConfigDict:
  """Every field can be set on the command line: --config.field=value."""
  config = quickstart.get_config()
  del config["model"]  # a population brings its policy
  del config["lora"]
  config.warm_start.steps = 0

  # A seed of the comparison draws its own prompts: task.seed + seed.
  config.task = ml_collections.ConfigDict()
  config.task.name = "logistic"
  config.task.num_prompts = 1024
  config.task.num_eval = 256
  config.task.seed = 0

  config.prompts = 64
  config.rollouts = 512
  config.slots = 64  # fewer than rollouts, for methods that act at the slot
  config.micro_rows = 512

  # What each method spends on each seed, in --budget_unit.
  config.budget = 32768
  # Steps between evaluations, which are exact and cost little here.
  config.eval_every = 4
  config.metric = "solve_rate"  # or held_out

  # --step_size: the length of every update, the rate, and the factors of the
  # rate that tuning tries on seeds of its own.
  config.update_norm = 0.03
  config.learning_rate = 0.1
  config.tuning_rates = (0.1, 0.3, 1.0, 3.0, 10.0)
  config.tuning_seeds = 2

  # The largest difference that does not matter.
  config.margin = 0.02
  config.power = 0.8  # of the least detectable difference
  # Of the cost to target: a value of the metric (0: this share of the
  # baseline's mean gain).
  config.target = 0.0
  config.target_share = 0.9
  return config
