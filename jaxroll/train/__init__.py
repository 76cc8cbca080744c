"""How does a policy become better?

state       the first TrainState
step        one training step as four pure functions
plan        its first half: prompts, counts, rollouts
prompts     what is known of prompts before they are rolled out
at_slots    rollouts of a recipe that allocates inside the decode loop
forms       the step as one function: fused, or hosted
disaggregated  the step on two meshes: one rolls out, the other learns
methods     the calls of a recipe's chains
scoring     log-probs of rows that are already there
update      optimiser steps over micro-batches
optimiser   AdamW or SGD behind a guard, updates of one length
warm_start  supervised steps before RL
metrics     what a step reports
"""

from jaxroll.train.disaggregated import Disaggregated as Disaggregated
from jaxroll.train.disaggregated import Pending as Pending
from jaxroll.train.disaggregated import Pipeline as Pipeline
from jaxroll.train.disaggregated import disaggregated as disaggregated
from jaxroll.train.forms import fused as fused
from jaxroll.train.forms import hosted as hosted
from jaxroll.train.methods import value as value
from jaxroll.train.optimiser import adamw as adamw
from jaxroll.train.optimiser import apply_gradients as apply_gradients
from jaxroll.train.optimiser import sgd as sgd
from jaxroll.train.optimiser import unit_norm as unit_norm
from jaxroll.train.plan import Draft as Draft
from jaxroll.train.plan import Settings as Settings
from jaxroll.train.prompts import num_features as num_features
from jaxroll.train.scoring import token_logps as token_logps
from jaxroll.train.state import init_state as init_state
from jaxroll.train.step import Output as Output
from jaxroll.train.step import Step as Step
from jaxroll.train.step import make_step as make_step
from jaxroll.train.update import update as update
from jaxroll.train.warm_start import warm_start as warm_start

__all__ = [
  "Disaggregated",
  "Draft",
  "Output",
  "Pending",
  "Pipeline",
  "Settings",
  "Step",
  "adamw",
  "apply_gradients",
  "disaggregated",
  "fused",
  "hosted",
  "init_state",
  "make_step",
  "num_features",
  "sgd",
  "token_logps",
  "unit_norm",
  "update",
  "value",
  "warm_start",
]
