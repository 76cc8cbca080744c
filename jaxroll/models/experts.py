"""Which expert computes a token? A router's few best of many, by one sort.

  p = softmax(x W_r),  T = the k largest,  y = sum_{e in T} w_e FFN_e(x)

with w the chosen probabilities, divided by their sum where the config says so
(Shazeer et al. 2017, arXiv:1701.06538; Yang et al. 2025, arXiv:2505.09388).
Rows are sorted by expert, so that each expert's are one block of a ragged
matrix product: no capacity, no token dropped, nothing computed twice.

On a mesh (`parallel.bound`) each shard sorts its own rows, and the experts stay
where they are: a device of the `expert` axis computes its experts' tokens, one
of `tensor` its part of their width, and the outputs are summed over both.
"""

import math
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import PartitionSpec

from jaxroll import parallel
from jaxroll.models.config import Config


class Routes(NamedTuple):
  """What the routers of all layers chose; E experts, k chosen.

  Attributes:
    logits: f32[B, S, L, E].
    experts: i32[B, S, L, k], the likeliest first; ties to the lower number.
    weights: f32[B, S, L, k].
  """

  logits: chex.Array
  experts: chex.Array
  weights: chex.Array


class ExpertFfn(nn.Module):
  """SwiGLU of the chosen experts, weighted."""

  config: Config

  @nn.compact
  def __call__(self, x_BSD):
    c, e = self.config, self.config.experts
    D = x_BSD.shape[-1]
    init = nn.initializers.normal(0.02)
    out_init = nn.initializers.normal(0.02 * (2 * c.layers) ** -0.5)
    gate = self.param("gate", init, (e.count, D, c.ffn))
    up = self.param("up", init, (e.count, D, c.ffn))
    down = self.param("down", out_init, (e.count, c.ffn, D))

    router = nn.Dense(
      e.count, use_bias=False, dtype=c.dtype, name="router", kernel_init=init
    )
    logits = router(x_BSD).astype(jnp.float32)
    kernels = tuple(kernel.astype(c.dtype) for kernel in (gate, up, down))
    y_BSD, weights, chosen = _on_mesh(c, x_BSD, logits, kernels)
    for name, x in (
      ("logits", logits),
      ("experts", chosen),
      ("weights", weights),
    ):
      self.sow("routes", name, x)
    return y_BSD


def _on_mesh(config, x_BSD, logits_BSE, kernels):
  """`_chosen` of each shard's rows and experts, summed over the experts'."""
  free = parallel.free_axes()
  if all(size == 1 for size in free.values()):
    return _chosen(config, x_BSD, logits_BSE, kernels, first=0)

  def split(names, size):
    """Those of the axes that are free, if they divide the size."""
    names = tuple(name for name in names if name in free)
    divides = not size % math.prod(free[name] for name in names)
    return names if names and divides else None

  by_row = split(parallel.ROW_AXES, x_BSD.shape[0])
  by_expert = split(("expert",), config.experts.count)
  by_width = split(("tensor",), config.ffn)
  summed = (by_expert or ()) + (by_width or ())

  def local(x, logits, *kernels):
    first = 0
    if by_expert is not None:
      first = jax.lax.axis_index(by_expert) * kernels[0].shape[0]
    y, weights, chosen = _chosen(config, x, logits, kernels, first)
    return jax.lax.psum(y, summed) if summed else y, weights, chosen

  rows = PartitionSpec(by_row)
  inward = PartitionSpec(by_expert, None, by_width)
  outward = PartitionSpec(by_expert, by_width)
  return jax.shard_map(
    local,
    in_specs=(rows, rows, inward, inward, outward),
    out_specs=rows,
    axis_names=set(free),
    check_vma=False,
  )(x_BSD, logits_BSE, *kernels)


def _chosen(config, x_BSD, logits_BSE, kernels, first):
  """What experts first, first + 1 ... add for each token; weights, choices."""
  B, S, D = x_BSD.shape
  k, own = config.experts.per_token, kernels[0].shape[0]
  x_ND = x_BSD.reshape(B * S, D)
  logits = logits_BSE.reshape(B * S, -1)
  weights, chosen = route(logits, k, config.experts.normalised)

  # Row r of the flat [N * k] list is token r // k's choice r % k. Those of
  # experts that are elsewhere stand last and belong to no block.
  flat = chosen.reshape(-1) - first
  flat = jnp.where((flat >= 0) & (flat < own), flat, own)
  order = jnp.argsort(flat, stable=True)
  sizes = jnp.bincount(flat, length=own).astype(jnp.int32)
  x_RD = jnp.take(x_ND, order // k, axis=0)
  here = (jnp.take(flat, order) < own)[:, None]

  def project(x, kernel):
    # What a product has outside its blocks is not defined, nor its gradient.
    return jnp.where(here, jax.lax.ragged_dot(x, kernel, sizes), 0)

  gate, up, down = kernels
  x_RD = jnp.where(here, x_RD, 0)
  y_RD = project(nn.silu(project(x_RD, gate)) * project(x_RD, up), down)
  y_RD = jnp.take(y_RD, jnp.argsort(order), axis=0)
  y_NkD = y_RD.reshape(B * S, k, D)
  y_ND = jnp.einsum("NkD,Nk->ND", y_NkD, weights.astype(x_BSD.dtype))
  return (
    y_ND.reshape(B, S, D),
    weights.reshape(B, S, k),
    chosen.reshape(B, S, k),
  )


def route(logits, per_token: int, normalised: bool):
  """The likeliest experts of each token and their weights.

  Args:
    logits: f32[N, E].
    per_token: k, how many.
    normalised: weights are divided by their sum.

  Returns:
    Weights f32[N, k] and experts i32[N, k], the likeliest first.
  """
  weights, chosen = jax.lax.top_k(jax.nn.softmax(logits, axis=-1), per_token)
  if normalised:
    # At least 1/E each: the largest of E probabilities is in the sum.
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
  return weights, chosen
