"""How fast could a model be? As fast as its bare matrix products alone.

The products of all layers and the head, one after another on separate weights
as in a decode loop, with nothing between them but what keeps each needed: no
norm, no attention, no sampling.
"""

import functools
import time

import jax
import jax.numpy as jnp

from experiments.benchmarks.shapes import Shapes

_ENOUGH = 0.2  # seconds after which no further try is made
_TRIES = 5


def seconds(shapes: Shapes, rows: int, logits: int, *, backward=False) -> float:
  """The least time of a few calls, made now.

  Args:
    shapes: of the model.
    rows: that pass the layers at once.
    logits: of them, those that pass the head.
    backward: gradients of weights and inputs too.

  Returns:
    Seconds.
  """
  call, arrays = _chain(shapes, rows, logits, backward)
  times = []
  while len(times) < _TRIES and sum(times) < _ENOUGH:
    began = time.perf_counter()
    jax.block_until_ready(call(*arrays))
    times.append(time.perf_counter() - began)
  return min(times)


@functools.lru_cache(maxsize=8)
def _chain(shapes, rows, logits, backward):
  """The compiled call and its arguments."""
  head_dim = shapes.embed // shapes.heads
  inner, narrow = shapes.heads * head_dim, shapes.kv_heads * head_dim
  keys = iter(jax.random.split(jax.random.key(0), 7 * shapes.layers + 2))

  def matrix(a, b):
    drawn = jax.random.normal(next(keys), (a, b)) * a**-0.5
    return drawn.astype(shapes.dtype)

  def layer():
    D, F = shapes.embed, shapes.ffn
    of_attention = matrix(D, inner), matrix(D, narrow), matrix(D, narrow)
    return (*of_attention, matrix(inner, D)) + (
      matrix(D, F),
      matrix(D, F),
      matrix(F, D),
    )

  def forward(layers, head, x):
    for q, k, v, o, gate, up, down in layers:
      mixed, added = x @ q, x @ k + x @ v
      mixed = jnp.concatenate(
        [mixed[:, :narrow] + added, mixed[:, narrow:]], axis=1
      )
      x = mixed @ o
      x = (x @ gate + x @ up) @ down
    return x[:logits] @ head

  def loss(layers, head, x):
    return jnp.sum(forward(layers, head, x).astype(jnp.float32) ** 2)

  layers = tuple(layer() for _ in range(shapes.layers))
  head = matrix(shapes.embed, shapes.vocab)
  arrays = layers, head, matrix(rows, shapes.embed)
  call = jax.jit(jax.grad(loss, argnums=(0, 1, 2)) if backward else forward)
  jax.block_until_ready(call(*arrays))
  return call, arrays
