"""Which expert computes a token? A router's few best of many, by one sort.

  p = softmax(x W_r),  T = the k largest,  y = sum_{e in T} w_e FFN_e(x)

with w the chosen probabilities, divided by their sum where the config says so
(Shazeer et al. 2017, arXiv:1701.06538; Yang et al. 2025, arXiv:2505.09388).
Rows are sorted by expert, so that each expert's are one block of a ragged
matrix product: no capacity, no token dropped, nothing computed twice.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import linen as nn

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
    B, S, D = x_BSD.shape
    init = nn.initializers.normal(0.02)
    out_init = nn.initializers.normal(0.02 * (2 * c.layers) ** -0.5)
    gate = self.param("gate", init, (e.count, D, c.ffn))
    up = self.param("up", init, (e.count, D, c.ffn))
    down = self.param("down", out_init, (e.count, c.ffn, D))

    x_ND = x_BSD.reshape(B * S, D)
    router = nn.Dense(
      e.count, use_bias=False, dtype=c.dtype, name="router", kernel_init=init
    )
    logits = router(x_ND).astype(jnp.float32)
    weights, chosen = route(logits, e.per_token, e.normalised)
    for name, x in (
      ("logits", logits),
      ("experts", chosen),
      ("weights", weights),
    ):
      self.sow("routes", name, x.reshape(B, S, -1))

    # Row r of the flat [N * k] list is token r // k's choice r % k.
    flat = chosen.reshape(-1)
    order = jnp.argsort(flat, stable=True)
    sizes = jnp.bincount(flat, length=e.count).astype(jnp.int32)
    x_RD = jnp.take(x_ND, order // e.per_token, axis=0)

    def project(x, kernel):
      return jax.lax.ragged_dot(x, kernel.astype(c.dtype), sizes)

    y_RD = project(nn.silu(project(x_RD, gate)) * project(x_RD, up), down)
    y_RD = jnp.take(y_RD, jnp.argsort(order), axis=0)
    y_NkD = y_RD.reshape(B * S, e.per_token, D)
    y_ND = jnp.einsum("NkD,Nk->ND", y_NkD, weights.astype(c.dtype))
    return y_ND.reshape(B, S, D)


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
