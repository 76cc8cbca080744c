"""How does a GGUF file become a policy? Weights, sizes, tokenizer: one file.

GGUF stores a Llama's query and key rows for rotary positions on neighbouring
pairs (2i, 2i + 1); the transformer here turns halves (i, i + h/2), so the rows
of each head are taken back: even ones first, then the odd ones. The Qwens'
rows are stored as they are. Weights are dequantised one tensor at a time.

Reading and dequantising are the `gguf` package's: pip install 'jaxroll[lm]'.
"""

import functools
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxroll.models import families, weights
from jaxroll.models import tokenizer as tokenizer_lib
from jaxroll.models.config import Config, Experts, RopeScaling
from jaxroll.models.weights import Pretrained

_ARCHITECTURES = ("llama", "qwen2", "qwen3", "qwen3moe")
_TYPES = (
  "F32",
  "F16",
  "BF16",
  "Q4_0",
  "Q4_1",
  "Q5_0",
  "Q5_1",
  "Q8_0",
  "Q2_K",
  "Q3_K",
  "Q4_K",
  "Q5_K",
  "Q6_K",
)
# A Llama 3's stretch of frequencies, as divisors of each.
_DIVISORS = "rope_freqs.weight"
_DETAILS = {
  "bos_token_id": "tokenizer.ggml.bos_token_id",
  "eos_token_id": "tokenizer.ggml.eos_token_id",
  "pad_token_id": "tokenizer.ggml.padding_token_id",
}


def load(
  path: str | os.PathLike,
  *,
  dtype: str = "float32",
  shardings: Callable | None = None,
) -> Pretrained:
  """Reads a model from a GGUF file: llama, qwen2, qwen3 or qwen3moe.

  Args:
    path: the file.
    dtype: of the parameters, after dequantising in float32.
    shardings: see `weights.fill`; each device's part dequantises the tensors
      that it lies in.

  Returns:
    `Pretrained`.

  Raises:
    ImportError: without the `gguf` package, with the command to install it.
    FileNotFoundError: where there is no such file.
    ValueError: for another architecture, a missing or surplus tensor, or one
      of the wrong shape or type; all of them are listed.
  """
  try:
    import gguf
  except ImportError as error:
    raise ImportError(
      "reading GGUF needs the gguf package: pip install 'jaxroll[lm]'"
    ) from error
  wanted = weights.check_dtype(dtype)
  path = pathlib.Path(path)
  if not path.is_file():
    raise FileNotFoundError(f"{path}: no such GGUF file")
  reader = gguf.GGUFReader(path)
  fields = {name: field.contents() for name, field in reader.fields.items()}
  stored = {tensor.name: tensor for tensor in reader.tensors}

  def values(name):
    tensor = stored[name]
    found = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    return np.asarray(found, np.float32)

  divisors = values(_DIVISORS) if _DIVISORS in stored else None
  config = _config(
    fields, tied="output.weight" not in stored, divisors=divisors
  )
  table = families.tensors(config)
  strange = [
    f"{name} is {tensor.tensor_type.name}, not one of {_TYPES}"
    for name, tensor in stored.items()
    if tensor.tensor_type.name not in _TYPES
  ]
  # GGUF counts axes from the innermost one.
  shapes = {n: t.shape[::-1] for n, t in stored.items() if n != _DIVISORS}
  weights.check_shapes(path, shapes, _shapes(config, table), strange)
  pairs = fields["general.architecture"] == "llama"

  @functools.lru_cache(maxsize=1)  # neighbouring parts are of one tensor
  def whole(name):
    found = values(name)
    if pairs and name.endswith(("attn_q.weight", "attn_k.weight")):
      found = _halves(found, config.head_dim)
    return found

  def read(tensor, layer, index):
    found = whole(tensor.gguf.format(layer=layer))
    return (found.swapaxes(-1, -2) if tensor.transposed else found)[index]

  params = weights.fill(config, table, read, dtype=wanted, shardings=shardings)
  details = {k: int(fields[n]) for k, n in _DETAILS.items() if n in fields}
  context = fields.get(f"{fields['general.architecture']}.context_length")
  if context is not None:
    details["max_position_embeddings"] = int(context)
  tokenizer = tokenizer_lib.from_gguf(fields)
  return Pretrained(config, params, tokenizer, None, details)


def _config(fields: Mapping[str, Any], *, tied, divisors) -> Config:
  architecture = fields.get("general.architecture")
  if architecture not in _ARCHITECTURES:
    raise ValueError(
      f"architecture {architecture!r}: must be one of {_ARCHITECTURES}"
    )

  def field(name, default=None):
    value = fields.get(f"{architecture}.{name}", default)
    if value is None:
      raise ValueError(f"the file has no field {architecture}.{name}")
    if isinstance(value, list):
      raise ValueError(
        f"{architecture}.{name}={value}: layers of several sizes are not known"
      )
    return value

  heads = int(field("attention.head_count"))
  embed = int(field("embedding_length"))
  layers = int(field("block_count"))
  head_dim = int(field("attention.key_length", embed // heads))
  theta = float(field("rope.freq_base", 10_000.0))
  window = int(field("attention.sliding_window", 0))
  experts = None
  ffn = "feed_forward_length"
  if architecture == "qwen3moe":
    ffn = "expert_feed_forward_length"
    experts = Experts(
      int(field("expert_count")), int(field("expert_used_count"))
    )
  elif int(field("expert_count", 0)):
    raise ValueError(
      f"{architecture}.expert_count={field('expert_count')}: experts are known "
      "in qwen3moe only"
    )
  scaling = field("rope.scaling.type", "none")
  if scaling not in ("none", "linear"):
    raise ValueError(
      f"{architecture}.rope.scaling.type={scaling!r}: 'none' or 'linear'"
    )
  stretch = None
  if scaling == "linear":
    stretch = RopeScaling("linear", float(field("rope.scaling.factor")))
  if divisors is not None:
    stretch = _stretch(divisors, theta, head_dim)
  return Config(
    vocab_size=len(fields["tokenizer.ggml.tokens"]),
    embed=embed,
    layers=layers,
    heads=heads,
    kv_heads=int(field("attention.head_count_kv", heads)),
    head_dim=head_dim,
    ffn=int(field(ffn)),
    rope_theta=theta,
    rope_scaling=stretch,
    norm_eps=float(field("attention.layer_norm_rms_epsilon")),
    qk_norm=architecture in ("qwen3", "qwen3moe"),
    qkv_bias=architecture == "qwen2",
    tied_embedding=tied,
    windows=(window,) * layers if window else (),
    experts=experts,
  )


def _stretch(divisors, theta, head_dim) -> RopeScaling:
  """The Llama 3 scaling whose divisors a file holds.

  Files hold the divisors alone; all models of that line were stretched from
  8192 tokens between 1 and 4 turns, by a factor that is the largest divisor.
  """
  found = RopeScaling("llama3", float(np.max(divisors)))
  half = head_dim // 2
  turns = found.context * theta ** (-np.arange(half) / half) / (2 * np.pi)
  kept = np.clip((turns - found.low) / (found.high - found.low), 0.0, 1.0)
  expected = 1 / (kept + (1 - kept) / found.factor)
  if divisors.shape != (half,) or not np.allclose(
    divisors, expected, rtol=1e-4
  ):
    raise ValueError(
      f"{_DIVISORS} holds {np.asarray(divisors)}: not the divisors of a Llama "
      f"3 stretched by {found.factor}, {expected}; load the model's Hugging "
      "Face folder"
    )
  return found


def _shapes(config, table) -> dict[str, tuple[int, ...]]:
  """Shape of every tensor by its name in a file, outermost axis first."""
  return {
    tensor.gguf.format(layer=layer): tensor.file_shape
    for tensor in table
    for layer in range(config.layers if tensor.stacked else 1)
  }


def _halves(rows, head_dim):
  """Rows [heads * h, D] of pairs (2i, 2i + 1) as rows of halves."""
  heads = rows.shape[0] // head_dim
  pairs = rows.reshape(heads, head_dim // 2, 2, -1)
  return pairs.swapaxes(1, 2).reshape(rows.shape)
