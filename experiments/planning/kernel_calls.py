"""Which arrays does a kernel get on one chip? Its local sizes, and its call.

A layer of a decode step, and log-probs of a micro-batch with their gradients,
as the library makes them today and by `jaxroll.kernels`. What is made today are
the library's own functions, `transformer.attend` and `scoring.token_logps`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.planning import programs
from jaxroll import kernels, models
from jaxroll.models import transformer
from jaxroll.train import scoring

TODAY = "today"


class Attention(NamedTuple):
  """A chip's arrays in one layer of a decode step.

  Attributes:
    rows: B, slots. groups: P, prompts that they share at once.
    heads: H. kv_heads: K, of a cache. head_dim: h.
    prompt: S columns. response: T columns. dtype: of activations.
  """

  rows: int
  groups: int
  heads: int
  kv_heads: int
  head_dim: int
  prompt: int
  response: int
  dtype: str


class Logits(NamedTuple):
  """A chip's arrays behind the last layer of a micro-batch.

  Attributes:
    rows: B. response: T. embed: D.
    vocabulary: V, its part where `tensor` divides it.
    tied: the matrix is [V, D], else [D, V].
    dtype: of hidden states; the matrix is a float32 master.
  """

  rows: int
  response: int
  embed: int
  vocabulary: int
  tied: bool
  dtype: str


def attention(
  config: models.Config, work: programs.Work, sizes: dict[str, int]
) -> Attention:
  """The decode step's arrays on one chip.

  Args:
    config: of the model. work: sizes of the step, none of them 0.
    sizes: axis -> size of the mesh.

  Returns:
    `Attention`. Kv heads lie over `tensor`, repeated where it is larger, as a
    cache has them; where heads do not allow that a chip has all of them.

  Example:
    >>> work = programs.Work(64, 1024, 1024, 1024, 1024, 64)
    >>> attention(models.Config(), work, {"fsdp": 16})[:2]
    (64, 4)
  """
  tensor = sizes.get("tensor", 1)
  rows = -(-min(work.slots, work.rows) // _shards(sizes))
  heads, cached = config.heads, int(np.lcm(config.kv_heads, tensor))
  if heads % cached:
    cached = config.kv_heads
  else:
    heads, cached = heads // tensor, cached // tensor
  return Attention(
    rows,
    min(-(-rows * work.prompts // work.rows), work.prompts),
    heads,
    cached,
    config.head_dim,
    work.prompt_length,
    work.response_length,
    config.dtype,
  )


def logits(
  config: models.Config, work: programs.Work, sizes: dict[str, int]
) -> Logits:
  """The update's arrays on one chip; Args: as of `attention`."""
  vocabulary, tensor = config.vocab_size, sizes.get("tensor", 1)
  if not vocabulary % tensor:
    vocabulary //= tensor
  return Logits(
    -(-min(work.micro_rows, work.rows) // _shards(sizes)),
    work.response_length,
    config.embed,
    vocabulary,
    config.tied_embedding,
    config.dtype,
  )


def _shards(sizes):
  return sizes.get("data", 1) * sizes.get("fsdp", 1)


# --- functions and the shapes of their arguments


def attention_call(local: Attention, how: str):
  """One layer's attention: a function, and shapes and dtypes of its arguments.

  Args:
    local: sizes.
    how: "xla", "pallas", or "today": over rows that hold their prompt's copy.
  """
  B, P, H, K, h, S, T, dtype = local
  integer = jnp.int32
  query = ((B, H, h), dtype)
  if how == TODAY:

    def today(q, k, v, position, positions):
      return transformer.attend(q[:, None], k, v, position[:, None], positions)

    cache = ((B, K, S + T, h), dtype)
    return today, (query, cache, cache, ((B,), integer), ((B, S + T), integer))

  def shared(*arguments):
    return kernels.shared_prefix_attention(*arguments, implementation=how)

  prefix, own = ((P, K, S, h), dtype), ((B, K, T, h), dtype)
  more = ((B, T), integer), ((B,), integer)
  return shared, (query, prefix, prefix, ((P,), integer), own, own, *more)


def logits_call(local: Logits, config: models.Config, how: str):
  """Log-probs, entropies and both gradients, with shapes of the arguments.

  Args:
    local: sizes. config: of the model.
    how: "xla", "pallas", or "today": chunks of T, of `train.scoring`.
  """
  B, T, D, V, tied, dtype = local
  policy = models.policy(config)

  def today(hidden, matrix, tokens, temperature):
    embed = {"embed": {"embedding": matrix}}
    params = embed if tied else {"head": {"kernel": matrix}}
    # One column of context, and behind it the tokens: T are read of T + 1.
    given = policy._replace(apply=lambda *_: (hidden, None))
    context = jnp.zeros((B, 1), jnp.int32), jnp.ones((B,), jnp.int32)
    length = jnp.full((B,), T, jnp.int32)
    return scoring.token_logps(
      given, params, *context, tokens, length, temperature
    )

  def blocks(hidden, matrix, tokens, temperature):
    found = kernels.token_logp(
      hidden.reshape(B * T, D),
      matrix,
      tokens.reshape(-1),
      temperature,
      vocab_axis=0 if tied else 1,
      implementation=how,
    )
    return tuple(x.reshape(B, T) for x in found)

  measure = today if how == TODAY else blocks

  def learn(hidden, matrix, tokens, temperature, weight):
    def weighed(hidden, matrix):
      logp, entropy = measure(hidden, matrix, tokens, temperature)
      return jnp.sum(weight * logp), (logp, entropy)

    return jax.value_and_grad(weighed, (0, 1), has_aux=True)(hidden, matrix)

  shape = (V, D) if tied else (D, V)
  vectors = ((B, T), jnp.int32), ((), jnp.float32), ((B, T), jnp.float32)
  return learn, (((B, T, D), dtype), (shape, jnp.float32), *vectors)
