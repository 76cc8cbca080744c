"""How is x W differentiated? With the gradient in W's own layout, x^T dy.

JAX's rule makes (dy^T x)^T. Where a backend first writes out the transposed
operand, as XLA does on CPUs, that is the wide one of the products into a ffn,
with all that precedes it fused into a strided loop: the update of a model of
51 million weights took 1.9 times as long (2 cores, float32).
"""

import jax


@jax.custom_vjp
def product(x, kernel):
  """x f[..., D] times kernel f[D, F]."""
  return jax.lax.dot_general(x, kernel, (((x.ndim - 1,), (0,)), ((), ())))


def _forward(x, kernel):
  return product(x, kernel), (x, kernel)


def _backward(kept, dy):
  x, kernel = kept
  lead = tuple(range(x.ndim - 1))
  dx = jax.lax.dot_general(dy, kernel, (((x.ndim - 1,), (1,)), ((), ())))
  dkernel = jax.lax.dot_general(x, dy, ((lead, lead), ((), ())))
  return dx, dkernel


product.defvjp(_forward, _backward)


def dot_general(x, kernel, dimensions, precision=None, **options):
  """`product`, where `nn.Dense` calls for `lax.dot_general`."""
  del dimensions, options  # of nn.Dense: x's last axis, the kernel's first
  if precision is not None:
    raise ValueError(f"precision={precision}: only the default is written")
  return product(x, kernel)
