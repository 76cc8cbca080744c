"""Methods on sums, with SmolLM2-135M-Instruct.

  python -m experiments.compare --task=smollm2 --recipes=uniform,vade,vigor \
    --seeds=2 --workdir=runs/compare_smollm2

Needs pip install 'jaxroll[lm,tasks]'; the model is fetched the first time.
Verified on the host, so that recipes that allocate at the slot are refused.

Device: CPU, 2 shared cores. Wall time: not run. Result: not run.
"""

import ml_collections

from experiments.configs import compare_arithmetic


def get_config() -> ml_collections.ConfigDict:
  """Every field can be set on the command line: --config.field=value."""
  config = compare_arithmetic.get_config()
  config.model = ml_collections.ConfigDict()
  config.model.pretrained = "smollm2-135m-instruct"
  config.warm_start.steps = 0

  config.task = ml_collections.ConfigDict()
  config.task.name = "reasoning_gym:chain_sum"
  config.task.parameters = {"min_terms": 2, "max_terms": 2}
  config.task.levels = (
    {"min_digits": 1, "max_digits": 1},
    {"min_digits": 2, "max_digits": 2},
  )
  config.task.per_grade = 128
  config.task.eval_per_grade = 16
  config.task.prompt = "{question}\nReply with only the number."
  config.task.extract = "number"  # the last one
  config.task.least_score = 1.0  # right or wrong
  config.task.response_length = 16

  config.prompts = 8
  config.rollouts = 64
  config.slots = 64
  config.micro_rows = 16
  config.budget = 640  # 10 uniform steps
  config.eval_every = 5
  config.eval_prompts = 32
  config.eval_k = 2
  # Adam on 135 million parameters.
  config.update_norm = 0.05
  config.learning_rate = 1e-5
  return config
