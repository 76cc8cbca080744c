"""How does training read a prompt once for all of its rows? As a memory.

  hidden_s, memory = prefill(s),   hidden_t = extend(t, memory)

The memory is the prompt's keys and values. Row t attends to them and to its
own, each turned by the position it has in the whole text: what `Transformer`
computes for [s, t], layer by layer under the same remat, and differentiable in
the memory.
"""

import jax
import jax.numpy as jnp

from jaxroll.models.config import Config


def functions(config: Config, block, embed, norm, saved):
  """`prefill` and `extend` of a `types.Policy`, for stacked layers.

  Args:
    config: sizes, windows, remat.
    block: the module of a layer, which puts what is before a row in front.
    embed: (params, tokens) -> the first layer's stream.
    norm: (params, stream) -> hidden.
    saved: the checkpoint policy of `config.remat`.

  Returns:
    prefill, extend. A memory is (keys, values), [L, P, K, S, h] each.
  """

  def layers(params, tokens, positions, memory, key_positions, keep):
    def layer(x, own):
      leaves, window, kv = own
      x, kv = block.apply(
        {"params": leaves}, x, positions, window, key_positions, kv, None
      )
      return x, kv if keep else None

    if config.remat != "none":
      layer = jax.checkpoint(layer, policy=saved, prevent_cse=False)
    params = stacked(params)
    windows = jnp.array(config.windows, jnp.int32) if config.windows else None
    own = (params["layers"], windows, memory)
    x, memory = jax.lax.scan(layer, embed(params, tokens), own)
    return norm(params, x), memory

  def prefill(params, tokens, positions):
    shape = (config.layers, len(tokens), config.kv_heads, 0, config.head_dim)
    none = jnp.zeros(shape, config.dtype)
    return layers(params, tokens, positions, (none, none), positions, True)

  def extend(params, tokens, positions, memory, memory_positions):
    seen = jnp.concatenate([memory_positions, positions], axis=1)
    return layers(params, tokens, positions, memory, seen, False)[0]

  return prefill, extend


def stacked(params):
  """Params with layers stacked as `init` makes them, not a tuple of them."""
  layers = params["layers"]
  if not isinstance(layers, tuple):
    return params
  return params | {"layers": jax.tree.map(lambda *x: jnp.stack(x), *layers)}
