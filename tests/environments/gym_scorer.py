"""All data sets of reasoning-gym behind one scorer: no heavy imports here."""

import functools

from jaxroll.environments import gym

# Has no problems of its own.
COMPOSITE = {
  "datasets": [
    {"name": "chain_sum", "weight": 1.0, "config": {"max_terms": 2}},
    {"name": "gcd", "weight": 1.0, "config": {}},
  ]
}


def parameters(name):
  return COMPOSITE if name == "composite" else {}


@functools.cache
def scorer(name):
  return gym.Scorer(name, [parameters(name)])


def score(prompt, completion, answer):
  name, entry = answer
  return scorer(name)(prompt, completion, (0, entry))
