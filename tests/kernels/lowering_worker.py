"""Compiles the kernels for a TPU topology, without a TPU; prints JSON.

Run by test_lowering.py with libtpu on the path: a process of its own, since
libtpu is loaded once and for good.
"""

import functools
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies

from jaxroll import kernels

BF16, F32, I32 = jnp.bfloat16, jnp.float32, jnp.int32


def attention(B, P, H, K, h, S, T, dtype):
  """A function and its arguments' shapes and dtypes."""
  fn = functools.partial(
    kernels.shared_prefix_attention, implementation="pallas"
  )
  prefix, own = ((P, K, S, h), dtype), ((B, K, T, h), dtype)
  query = ((B, H, h), dtype)
  more = ((B, T), I32), ((B,), I32)
  return fn, (query, prefix, prefix, ((P,), I32), own, own, *more)


def logp(N, D, V, dtype, weights, vocab_axis):
  """The same, of the value and both gradients."""
  logp_of = functools.partial(
    kernels.token_logp, implementation="pallas", vocab_axis=vocab_axis
  )

  def fn(hidden, unembedding, targets, temperature, g):
    def weighed(hidden, unembedding):
      logp, _ = logp_of(hidden, unembedding, targets, temperature)
      return jnp.sum(g * logp)

    return jax.value_and_grad(weighed, (0, 1))(hidden, unembedding)

  shape = (D, V) if vocab_axis else (V, D)
  vectors = ((N,), I32), ((), F32), ((N,), F32)
  return fn, (((N, D), dtype), (shape, weights), *vectors)


CASES = {
  # Qwen2.5-7B: 64 rows in 4 groups, 1024 + 1024 columns; 2048 tokens' logits.
  "attention": attention(64, 4, 28, 4, 128, 1024, 1024, BF16),
  "logp": logp(2048, 3584, 152064, BF16, BF16, 1),
  # Nothing a multiple of a tile, several blocks, heads of 64, float32.
  "attention_ragged": attention(33, 5, 9, 3, 64, 2500, 1500, F32),
  "logp_ragged": logp(100, 576, 1000, F32, F32, 1),
  # A tied embedding kept in float32, an odd vocabulary.
  "logp_tied": logp(300, 896, 5001, BF16, F32, 0),
}


def main(topology):
  device = topologies.get_topology_desc(topology, platform="tpu").devices[0]
  mesh = jax.sharding.Mesh(np.array([device]), ("x",))
  whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
  found = {}
  for name, (fn, arguments) in CASES.items():
    shapes = [
      jax.ShapeDtypeStruct(*argument, sharding=whole) for argument in arguments
    ]
    # Says for which TPU Pallas lowers: there is none among the backends.
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
      compiled = jax.jit(fn).trace(*shapes).lower().compile()
    found[name] = {
      "kernels": compiled.as_text().count('target="tpu_custom_call"'),
      "temp": compiled.memory_analysis().temp_size_in_bytes,
    }
  print(json.dumps(found))


if __name__ == "__main__":
  main(sys.argv[1])
