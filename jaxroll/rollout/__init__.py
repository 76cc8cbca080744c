"""How do prompts become rollouts?

request     counts -> rows to generate; placing what came of them
generation  the one call, `generate`: contexts and a request in, rollouts out
prefix      contexts, prefilled once for many rows
engine      the decode loop with its slots
sampling    temperature, top-k, top-p, row keys, the sampler's log-probs
stopping    stop tokens and stop sequences
"""

from jaxroll.rollout.generation import Info as Info
from jaxroll.rollout.generation import generate as generate
from jaxroll.rollout.request import empty as empty
from jaxroll.rollout.request import fill as fill
from jaxroll.rollout.request import place as place
from jaxroll.rollout.sampling import Sampler as Sampler
from jaxroll.rollout.sampling import row_keys as row_keys
from jaxroll.rollout.sampling import sampler as sampler
from jaxroll.rollout.stopping import Stops as Stops
from jaxroll.rollout.stopping import stops as stops

__all__ = [
  "Info",
  "Sampler",
  "Stops",
  "empty",
  "fill",
  "generate",
  "place",
  "row_keys",
  "sampler",
  "stops",
]
