"""Which rollouts would have been worth it, where solve rates are known?

A population is a task and a policy whose solve rates are exact: prompt i is a
context of one token, a response is one token of {0, 1} and the reward is that
token. The same recipes, allocators, selectors and `train.make_step` drive it
that drive a language model, in milliseconds a step; `simulate` drives it
without tokens at all, up to a million prompts.

  population  its policy                                  its trap
  logistic    Gaussian features and a constant            one easy direction
  skills      parameters of its own for every skill       none shared
  mean_field  one latent logit a prompt, one a cluster    up to 10^6 prompts

One step's rollouts by prompt are a `Spent`, from `spend` (an allocator's rounds
on known rates) or `gather` (the rows of a real step).

  measurement          of a step or a run
  mixed_share          rollouts in groups of mixed outcome, over all spent
  zero_variance_share  groups without a gradient
  rollouts_to_target   spent until a mean solve rate is reached
  cosine               of an update with `exact_gradient`
  signal_to_noise      of a step's gradient, by rollout
  regret               mixed groups short of the `oracle`'s

A method that finds more mixed groups also takes larger steps: compare rollouts
to a target at equal update norms, or with a learning rate tuned for each.
"""

from jaxroll.evaluate._population_logistic import logistic
from jaxroll.evaluate._population_mean_field import mean_field
from jaxroll.evaluate._population_measure import (
  cosine,
  exact_gradient,
  logit_gradient,
  mixed,
  mixed_share,
  policy_gradient,
  rollouts_to_target,
  signal_to_noise,
  zero_variance_share,
)
from jaxroll.evaluate._population_oracle import (
  best_counts,
  known,
  oracle,
  regret,
)
from jaxroll.evaluate._population_pair import GRADES, Population
from jaxroll.evaluate._population_simulate import (
  Report,
  Simulation,
  State,
  simulate,
)
from jaxroll.evaluate._population_skills import skills
from jaxroll.evaluate._population_spend import Spent, gather, rows, spend

__all__ = [
  "GRADES",
  "Population",
  "Report",
  "Simulation",
  "Spent",
  "State",
  "best_counts",
  "cosine",
  "exact_gradient",
  "gather",
  "known",
  "logistic",
  "logit_gradient",
  "mean_field",
  "mixed",
  "mixed_share",
  "oracle",
  "policy_gradient",
  "regret",
  "rollouts_to_target",
  "rows",
  "signal_to_noise",
  "simulate",
  "skills",
  "spend",
  "zero_variance_share",
]
