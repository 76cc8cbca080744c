"""Methods on graded arithmetic with a small transformer.

  python -m experiments.compare --task=arithmetic \
    --recipes=uniform,vade,vigor --seeds=8 --workdir=runs/compare_arithmetic

Device: CPU, 2 shared cores. Wall time: 47 minutes for 47 methods on 8 seeds
with other jobs on the machine. Result: docs/results.md; uniform went from
pass@1 0.253 to 0.341.
"""

import ml_collections

from experiments.configs import compare_population, quickstart


def get_config() -> ml_collections.ConfigDict:
  """Every field can be set on the command line: --config.field=value."""
  config = quickstart.get_config()
  del config["lora"]  # methods are compared on whole models
  shared = compare_population.get_config()
  for name in ("power", "target", "target_share", "tuning_seeds"):
    config[name] = shared[name]

  # Small enough for many methods and seeds; it solves a quarter of its tries
  # after the warm start.
  config.model.embed = 64
  config.model.layers = 2
  config.model.heads = 4
  config.model.kv_heads = 2
  config.model.head_dim = 16
  config.model.ffn = 192
  config.warm_start.steps = 1500
  config.task.per_grade = 400
  config.task.eval_per_grade = 64

  config.prompts = 16
  config.rollouts = 128
  config.slots = 64
  config.micro_rows = 128

  # 75 uniform steps; the rate is constant, since methods take different numbers
  # of steps.
  config.budget = 9600
  config.warmup_steps = 0
  config.decay_steps = 0
  config.eval_every = 25
  config.eval_prompts = 128
  config.eval_k = 8
  config.metric = "pass@1"  # or pass@k

  config.update_norm = 0.02  # 0.08 makes this policy worse
  config.learning_rate = 2e-4
  config.tuning_rates = (0.3, 1.0, 3.0)
  config.margin = 0.02
  return config
