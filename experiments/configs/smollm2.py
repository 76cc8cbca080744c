"""SmolLM2-135M-Instruct learns sums and differences of two and three numbers.

  python -m experiments.train --config=experiments/configs/smollm2.py \
    --workdir=runs/smollm2

  python -m experiments.train --config=experiments/configs/smollm2.py \
    --workdir=runs/smollm2_vigor --config.recipe=vigor

Needs pip install 'jaxroll[lm,tasks]'; the model is fetched the first time.

Device: CPU, 2 shared cores, other jobs on the machine. Result, seed 0, 86
held-out prompts, 4 samples each at temperature 1, after 24 steps of 128
rollouts, 3072 in all (standard errors are over prompts):

  recipe   pass@1 before    after            pass@4 after     in mixed groups
  uniform  0.044 +- 0.012   0.320 +- 0.046   0.407 +- 0.053   0.36 of rollouts
  vigor    0.044 +- 0.012   0.267 +- 0.043   0.349 +- 0.052   0.60 of rollouts

VIGOR finds more mixed groups, and one seed shows no gain from it: -0.05, about
one standard error. Most is learned in the first 8 steps (0.273 and 0.279).
Wall time: 28 min 35 s and 24 min 6 s; a median step takes 47 s and 54 s.
"""

import ml_collections

from experiments.configs import quickstart


def get_config() -> ml_collections.ConfigDict:
  """Every field can be set on the command line: --config.field=value."""
  config = quickstart.get_config()
  config.recipe = "uniform"  # of group-relative advantages: GRPO
  config.model = ml_collections.ConfigDict()
  config.model.pretrained = "smollm2-135m-instruct"
  config.warm_start.steps = 0

  config.task = ml_collections.ConfigDict()
  config.task.name = "reasoning_gym:chain_sum"
  config.task.levels = tuple(
    {
      "min_terms": terms,
      "max_terms": terms,
      "min_digits": digits,
      "max_digits": digits,
    }
    for terms, digits in ((2, 1), (3, 1), (2, 2))
  )
  config.task.per_grade = 256
  config.task.eval_per_grade = 32
  config.task.system = "You are a calculator. You reply with only the number."
  config.task.extract = "number"  # the last one
  config.task.least_score = 1.0  # right or wrong
  config.task.response_length = 16

  config.steps = 24
  config.prompts = 16
  config.rollouts = 128
  config.slots = 64
  config.micro_rows = 16
  config.learning_rate = 2e-5
  config.warmup_steps = 0
  config.decay_steps = 0

  config.eval_every = 8
  config.eval_prompts = 96
  config.eval_k = 4
  config.checkpoint_every = 24
  config.checkpoints_kept = 1
  return config
