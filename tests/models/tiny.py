"""A transformer small enough for tests, with parameters that matter."""

import jax

from jaxroll import models

VOCAB = 24

# Each exercises another part of the architecture.
OPTIONS = {
  "plain": {},
  "multi-head": {"kv_heads": 4},
  "multi-query": {"kv_heads": 1},
  "qk_norm": {"qk_norm": True},
  "qkv_bias": {"qkv_bias": True},
  "untied": {"tied_embedding": False},
  "theta": {"rope_theta": 5e6},
  "eps": {"norm_eps": 0.5},
}
EVERYTHING = {
  "kv_heads": 1,
  "qk_norm": True,
  "qkv_bias": True,
  "tied_embedding": False,
  "rope_theta": 50.0,
}
# Windows shorter than the rows, experts, stretched frequencies, every bias.
CHOICES = {
  "qkv_bias": True,
  "o_bias": True,
  "rope_scaling": models.RopeScaling("llama3", 4.0, context=64),
  "windows": (3, 0),
  "experts": models.Experts(count=4, per_token=2),
}


def config(**changes):
  sizes = {
    "vocab_size": VOCAB,
    "embed": 16,
    "layers": 2,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "ffn": 24,
  }
  return models.Config(**(sizes | changes))


def network(seed=0, **changes):
  """A jitted policy, and parameters for it with noise on every leaf.

  As initialised, biases are 0, norms 1 and attention nearly uniform: a fault
  in any of them would not show.
  """
  policy = models.policy(config(**changes))
  policy = policy._replace(
    init=jax.jit(policy.init), apply=jax.jit(policy.apply)
  )
  params = policy.init(jax.random.key(seed))
  leaves, tree = jax.tree.flatten(params)
  keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
  noisy = [
    leaf + 0.3 * jax.random.normal(key, leaf.shape)
    for leaf, key in zip(leaves, keys)
  ]
  return policy, jax.tree.unflatten(tree, noisy)
