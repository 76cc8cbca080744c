"""What maps tokens to next-token logits? A decoder-only transformer.

RMSNorm, rotary positions, grouped-query attention, in a window or not, and
SwiGLU, one or a choice of experts, as in the Llama, Mistral and Qwen families
(Touvron et al. 2023, arXiv:2302.13971; Ainslie et al. 2023, arXiv:2305.13245;
Jiang et al. 2023, arXiv:2310.06825; Shazeer 2020, arXiv:2002.05202). Layers
are stacked under `nn.scan` for training; decoding runs them one by one, each
with its own cache, so that a cache is updated in place instead of copied
through a scan.

On a mesh (`parallel.bound`) the stream between blocks lies over rows, a cache
over rows and kv heads. Where `tensor` is larger than the kv heads, a cache
holds each as many times as it takes to give every device one, so that attention
needs no collective; where the query heads do not allow that, the compiler
splits within heads.

Letters inside this folder: B rows, S queries, C keys, D embedding, F ffn,
H heads, K kv heads, G = H / K, h head dim, L layers, V vocabulary, E experts.
"""

import functools
import math

import chex
import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxroll import parallel, types
from jaxroll.models import dense as dense_lib
from jaxroll.models import memory as memory_lib
from jaxroll.models.config import Config
from jaxroll.models.experts import ExpertFfn, Routes
from jaxroll.models.rope import rotate

_REMAT = {
  "none": None,
  "full": jax.checkpoint_policies.nothing_saveable,
  "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


def attend(q_BSHh, k_BKCh, v_BKCh, query_positions, key_positions, window=None):
  """Grouped-query attention: a key is visible iff its position is not later.

  With a window i32[] it must also be less than so many positions back; a
  window of 0 is none.

  The one place where attention is computed; softmax in float32.
  """
  B, S, H, h = q_BSHh.shape
  K = k_BKCh.shape[1]
  q = q_BSHh.reshape(B, S, K, H // K, h)
  visible = key_positions[:, None, :] <= query_positions[:, :, None]
  if window is not None:
    reach = jnp.where(window > 0, window, types.EMPTY)
    back = query_positions[:, :, None] - key_positions[:, None, :]
    visible = visible & (back < reach)
  if S == 1:
    out = jax.lax.platform_dependent(
      *(q, k_BKCh, v_BKCh, visible), cpu=_attend_one, default=_attend_many
    )
  else:
    out = _attend_many(q, k_BKCh, v_BKCh, visible)
  return out.reshape(B, S, H * h)


def _attend_many(q_BSKGh, k_BKCh, v_BKCh, visible_BSC):
  scores = jnp.einsum(
    "BSKGh,BKCh->BKGSC", q_BSKGh, k_BKCh, preferred_element_type=jnp.float32
  )
  weights = _softmax(scores, visible_BSC[:, None, None], k_BKCh.shape[-1])
  return jnp.einsum("BKGSC,BKCh->BSKGh", weights.astype(v_BKCh.dtype), v_BKCh)


def _attend_one(q_B1KGh, k_BKCh, v_BKCh, visible_B1C):
  """The same of one query a row, in sums instead of products.

  XLA's products on CPUs are made for larger matrices: at 64 rows and 96 columns
  of 4 heads of 64, twelve layers took 17.4 ms with them, with sums 6.3 ms.
  """
  q, k, v = (x.astype(jnp.float32) for x in (q_B1KGh[:, 0], k_BKCh, v_BKCh))
  scores = jnp.sum(q[:, :, :, None, :] * k[:, :, None], axis=-1)
  weights = _softmax(scores, visible_B1C[:, None], q.shape[-1])
  weights = weights.astype(v_BKCh.dtype).astype(jnp.float32)
  out = jnp.sum(weights[..., None] * v[:, :, None], axis=3)
  return out.astype(v_BKCh.dtype)[:, None]


def _softmax(scores, visible, head_dim):
  least = jnp.finfo(jnp.float32).min
  scores = jnp.where(visible, scores * head_dim**-0.5, least)
  return jax.nn.softmax(scores, axis=-1)


class RMSNorm(nn.Module):
  """x / rms(x) * scale over the last axis, in float32."""

  eps: float

  @nn.compact
  def __call__(self, x):
    scale = self.param("scale", nn.initializers.ones, (x.shape[-1],))
    wide = x.astype(jnp.float32)
    rms = jax.lax.rsqrt(jnp.mean(wide**2, axis=-1, keepdims=True) + self.eps)
    axes = tuple(range(x.ndim - 1))
    return (
      wide * rms * jnp.expand_dims(scale, axes).astype(jnp.float32)
    ).astype(x.dtype)


class Block(nn.Module):
  """Attention and SwiGLU, each behind a norm and added to the stream."""

  config: Config

  @nn.compact
  def __call__(
    self, x_BSD, positions, window=None, key_positions=None, kv=None, column=0
  ):
    """Returns the stream and, where `kv` is given, the updated keys, values.

    `kv` is a cache, written at `column`, or for None what stands before.
    """
    c = self.config
    B, S, _ = x_BSD.shape
    dense = functools.partial(
      nn.Dense,
      use_bias=False,
      dtype=c.dtype,
      kernel_init=nn.initializers.normal(0.02),
      dot_general=dense_lib.dot_general,
    )
    out_init = nn.initializers.normal(0.02 * (2 * c.layers) ** -0.5)

    def heads(name, n):
      y = dense(n * c.head_dim, name=name, use_bias=c.qkv_bias)(y_BSD)
      return y.reshape(B, S, n, c.head_dim)

    y_BSD = RMSNorm(c.norm_eps, name="attention_norm")(x_BSD)
    q, k, v = (
      heads("q", c.heads),
      heads("k", c.kv_heads),
      heads("v", c.kv_heads),
    )
    if c.qk_norm:
      q = RMSNorm(c.norm_eps, name="q_norm")(q)
      k = RMSNorm(c.norm_eps, name="k_norm")(k)
    q = rotate(q, positions, c)
    k = rotate(k, positions, c).swapaxes(1, 2)
    v = v.swapaxes(1, 2)
    if kv is None:
      key_positions = positions
    elif column is None:
      k, v = kv = tuple(
        jnp.concatenate([old, new], axis=2) for old, new in zip(kv, (k, v))
      )
    else:
      k, v = kv = tuple(
        _put(cached, new, column) for cached, new in zip(kv, (k, v))
      )
    mixed = attend(q, k, v, positions, key_positions, window)
    x_BSD = x_BSD + dense(
      c.embed, name="o", use_bias=c.o_bias, kernel_init=out_init
    )(mixed)

    y_BSD = RMSNorm(c.norm_eps, name="ffn_norm")(x_BSD)
    if c.experts is not None:
      x_BSD = x_BSD + ExpertFfn(c, name="experts")(y_BSD)
      return _by_rows(x_BSD), kv
    gate = nn.silu(dense(c.ffn, name="gate")(y_BSD))
    up = dense(c.ffn, name="up")(y_BSD)
    x_BSD = x_BSD + dense(c.embed, name="down", kernel_init=out_init)(gate * up)
    return _by_rows(x_BSD), kv


def _by_rows(x_BSD):
  return parallel.constrain(x_BSD, parallel.ROW_AXES, None, None)


def _by_rows_and_heads(x_BKCh):
  return parallel.constrain(x_BKCh, parallel.ROW_AXES, "tensor", None, None)


def _put(cached_BKCh, new_BKSh, column):
  """A cache with new columns; it may hold each kv head several times."""
  copies = cached_BKCh.shape[1] // new_BKSh.shape[1]
  if copies > 1:
    new_BKSh = jnp.repeat(new_BKSh, copies, axis=1)
  new_BKSh = new_BKSh.astype(cached_BKCh.dtype)
  at = (0, 0, column, 0)
  return _by_rows_and_heads(
    jax.lax.dynamic_update_slice(cached_BKCh, new_BKSh, at)
  )


def _cached_heads(config):
  """Kv heads of a cache: the least multiple that `tensor` divides, if any."""
  shards = parallel.free_axes().get("tensor", 1)
  most = math.lcm(config.kv_heads, shards)
  return config.kv_heads if config.heads % most else most


class Transformer(nn.Module):
  """Embedding, scanned blocks, final norm; the output matrix if not tied."""

  config: Config

  @nn.compact
  def __call__(self, tokens, positions):
    c = self.config
    x = nn.Embed(
      c.vocab_size,
      c.embed,
      dtype=c.dtype,
      name="embed",
      embedding_init=nn.initializers.normal(0.02),
    )(tokens)
    x = _by_rows(x)
    block = Block
    if c.remat != "none":
      block = nn.remat(Block, policy=_REMAT[c.remat], prevent_cse=False)
    stack = nn.scan(
      block,
      variable_axes={"params": 0, "routes": 0},
      split_rngs={"params": True},
      in_axes=(nn.broadcast, 0) if c.windows else nn.broadcast,
      length=c.layers,
    )
    windows = (jnp.array(c.windows, jnp.int32),) if c.windows else ()
    x, _ = stack(c, name="layers")(x, positions, *windows)
    x = RMSNorm(c.norm_eps, name="final_norm")(x)
    if not c.tied_embedding and self.is_initializing():
      nn.Dense(
        c.vocab_size,
        use_bias=False,
        dtype=c.dtype,
        name="head",
        kernel_init=nn.initializers.normal(0.02),
      )(x)
    return x


def policy(config: Config) -> types.Policy:
  """A transformer as pure functions; see `types.Policy` for the contract.

  >>> lm = policy(Config(vocab_size=24))
  >>> params = lm.init(jax.random.key(0))
  >>> tokens = jnp.ones((2, 5), jnp.int32)
  >>> positions = jnp.broadcast_to(jnp.arange(5), (2, 5))
  >>> hidden, _ = lm.apply(params, tokens, positions)
  >>> lm.unembed(params, hidden).shape
  (2, 5, 24)
  """
  model = Transformer(config)
  block = Block(config)

  def init(key):
    one = jnp.zeros((1, 1), jnp.int32)
    return model.init(key, one, one)["params"]

  def embed(params, tokens):
    x = jnp.take(params["embed"]["embedding"], tokens, axis=0)
    return _by_rows(x.astype(config.dtype))

  def norm(params, x):
    last = RMSNorm(config.norm_eps)
    return last.apply({"params": params["final_norm"]}, x)

  def apply(params, tokens, positions, cache=None, column=None):
    chex.assert_rank([tokens, positions], 2)
    chex.assert_equal_shape([tokens, positions])
    if cache is None:
      params = memory_lib.stacked(params)
      return model.apply({"params": params}, tokens, positions), None
    x = embed(params, tokens)
    key_positions = jax.lax.dynamic_update_slice(
      cache.positions, positions, (0, column)
    )
    keys, values = [], []
    layers = _unstacked(params, config)["layers"]
    windows = config.windows or (None,) * config.layers
    for layer, window, k, v in zip(layers, windows, cache.keys, cache.values):
      if window is not None:
        window = jnp.int32(window)
      x, (k, v) = block.apply(
        {"params": layer}, x, positions, window, key_positions, (k, v), column
      )
      keys.append(k)
      values.append(v)
    cache = types.Cache(tuple(keys), tuple(values), key_positions)
    return norm(params, x), cache

  def unembed(params, hidden):
    if config.tied_embedding:
      matrix = params["embed"]["embedding"].T
    else:
      matrix = params["head"]["kernel"]
    return jnp.matmul(
      hidden,
      matrix.astype(hidden.dtype),
      preferred_element_type=jnp.float32,
    )

  def init_cache(rows, columns):
    shape = (rows, _cached_heads(config), columns, config.head_dim)
    layer = tuple(
      _by_rows_and_heads(jnp.zeros(shape, config.dtype))
      for _ in range(config.layers)
    )
    empty = jnp.full((rows, columns), types.EMPTY, jnp.int32)
    return types.Cache(layer, layer, empty)

  def prepare(params):
    # Cast once: a decode loop would carry the wide copy of it as well.
    embed = jax.tree.map(lambda x: x.astype(config.dtype), params["embed"])
    return _unstacked(params, config) | {"embed": embed}

  made = types.Policy(init, apply, unembed, init_cache, prepare)
  if config.rope_scaling is not None and config.rope_scaling.kind == "dynamic":
    return made  # a prompt's keys depend on the length of what follows it
  prefill, extend = memory_lib.functions(
    config, block, embed, norm, _REMAT[config.remat]
  )
  return made._replace(prefill=prefill, extend=extend)


def routes(config: Config):
  """What the routers choose: (params, tokens, positions) -> `Routes`.

  A pass of its own over rows of tokens, as `apply` makes without a cache.

  Args:
    config: of a transformer with experts.

  Returns:
    (params, tokens i32[B, S], positions i32[B, S]) -> `Routes`.

  Raises:
    ValueError: without experts there is no router.

  >>> from jaxroll.models.config import Experts
  >>> config = Config(vocab_size=24, experts=Experts(count=4, per_token=2))
  >>> tokens = jnp.ones((2, 5), jnp.int32)
  >>> positions = jnp.broadcast_to(jnp.arange(5), (2, 5))
  >>> params = policy(config).init(jax.random.key(0))
  >>> routes(config)(params, tokens, positions).experts.shape
  (2, 5, 2, 2)
  """
  if config.experts is None:
    raise ValueError("experts=None: a dense transformer has no router")
  model = Transformer(config)

  def measure(params, tokens, positions):
    chex.assert_rank([tokens, positions], 2)
    variables = {"params": memory_lib.stacked(params)}
    _, made = model.apply(variables, tokens, positions, mutable=["routes"])
    sown = made["routes"]["layers"]["experts"]  # a name's tuple of one [L, ...]
    return Routes(
      *(jnp.moveaxis(sown[name][0], 0, 2) for name in Routes._fields)
    )

  return measure


def _unstacked(params, config):
  """Params with a tuple of layers; those that have one already stay."""
  layers = params["layers"]
  if isinstance(layers, tuple):
    return params

  def one(i):
    return jax.tree.map(lambda leaf: leaf[i], layers)

  return params | {"layers": tuple(one(i) for i in range(config.layers))}
