"""How do prompts become rollouts?

request     counts -> rows to generate; placing what came of them
generation  the one call, `generate`: contexts and a request in, rollouts out
prefix      contexts, prefilled once for many rows
engine      the decode loop with its slots
slots       allocation inside the loop: `generate_at_slots`
filling     what happens there when a slot falls free
sampling    temperature, top-k, top-p, row keys, the sampler's log-probs
stopping    stop tokens and stop sequences
"""

from jaxroll.rollout.filling import SlotRule as SlotRule
from jaxroll.rollout.filling import Start as Start
from jaxroll.rollout.generation import Info as Info
from jaxroll.rollout.generation import generate as generate
from jaxroll.rollout.request import empty as empty
from jaxroll.rollout.request import fill as fill
from jaxroll.rollout.request import place as place
from jaxroll.rollout.sampling import Sampler as Sampler
from jaxroll.rollout.sampling import row_keys as row_keys
from jaxroll.rollout.sampling import sampler as sampler
from jaxroll.rollout.slots import Filled as Filled
from jaxroll.rollout.slots import generate_at_slots as generate_at_slots
from jaxroll.rollout.stopping import Stops as Stops
from jaxroll.rollout.stopping import stops as stops

__all__ = [
  "Filled",
  "Info",
  "Sampler",
  "SlotRule",
  "Start",
  "Stops",
  "empty",
  "fill",
  "generate",
  "generate_at_slots",
  "place",
  "row_keys",
  "sampler",
  "stops",
]
