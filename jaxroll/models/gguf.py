"""How does a GGUF file become a policy? Weights, sizes, tokenizer: one file.

GGUF stores a Llama's query and key rows for rotary positions on neighbouring
pairs (2i, 2i + 1); the transformer here turns halves (i, i + h/2), so the rows
of each head are taken back: even ones first, then the odd ones. Weights are
dequantised to float32 one tensor at a time.

Reading and dequantising are the `gguf` package's: pip install 'jaxroll[lm]'.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from jaxroll.models import tokenizer as tokenizer_lib
from jaxroll.models.transformer import Config

_ARCHITECTURES = ("llama",)

# Where each tensor of a layer goes: its name in the file, its path here.
_LAYER = {
  "attn_norm": ("attention_norm", "scale"),
  "attn_q": ("q", "kernel"),
  "attn_k": ("k", "kernel"),
  "attn_v": ("v", "kernel"),
  "attn_output": ("o", "kernel"),
  "ffn_norm": ("ffn_norm", "scale"),
  "ffn_gate": ("gate", "kernel"),
  "ffn_up": ("up", "kernel"),
  "ffn_down": ("down", "kernel"),
}


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """A pretrained model.

  Attributes:
    config: sizes of the transformer.
    params: what `models.policy(config).apply` takes, numpy float32.
    tokenizer: its tokenizer, chat template and stop tokens.
  """

  config: Config
  params: Any
  tokenizer: tokenizer_lib.Tokenizer


def load(path: str | pathlib.Path) -> Pretrained:
  """Reads a Llama-architecture model from a GGUF file.

  Args:
    path: the file.

  Returns:
    `Pretrained`.

  Raises:
    ImportError: without the `gguf` package, with the command to install it.
    FileNotFoundError: where there is no such file.
    ValueError: for another architecture, a missing or surplus tensor, or one
      of the wrong shape; all of them are listed.
  """
  try:
    import gguf
  except ImportError as error:
    raise ImportError(
      "reading GGUF needs the gguf package: pip install 'jaxroll[lm]'"
    ) from error
  path = pathlib.Path(path)
  if not path.is_file():
    raise FileNotFoundError(f"{path}: no such GGUF file")
  reader = gguf.GGUFReader(path)
  fields = {name: field.contents() for name, field in reader.fields.items()}
  tensors = {tensor.name: tensor for tensor in reader.tensors}
  config = _config(fields, tied="output.weight" not in tensors)
  expected = _expected(config)
  _check(path, {n: tuple(t.shape) for n, t in tensors.items()}, expected)

  def read(name):
    tensor = tensors[name]
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    values = np.asarray(values, np.float32)
    if name.endswith(("attn_q.weight", "attn_k.weight")):
      values = _halves(values, config.head_dim)
    return values.T  # stored as [out, in]; a norm's scale stays as it is

  layers = {}
  for name, (module, leaf) in _LAYER.items():
    stacked = [read(f"blk.{i}.{name}.weight") for i in range(config.layers)]
    layers.setdefault(module, {})[leaf] = np.stack(stacked)
  params = {
    "embed": {"embedding": read("token_embd.weight").T},
    "layers": layers,
    "final_norm": {"scale": read("output_norm.weight")},
  }
  if not config.tied_embedding:
    params["head"] = {"kernel": read("output.weight")}
  return Pretrained(config, params, tokenizer_lib.from_gguf(fields))


def _config(fields, *, tied) -> Config:
  architecture = fields["general.architecture"]
  if architecture not in _ARCHITECTURES:
    raise ValueError(
      f"architecture {architecture!r}: must be one of {_ARCHITECTURES}"
    )

  def field(name, default=None):
    value = fields.get(f"{architecture}.{name}", default)
    if value is None:
      raise ValueError(f"the file has no field {architecture}.{name}")
    return value

  heads = int(field("attention.head_count"))
  embed = int(field("embedding_length"))
  return Config(
    vocab_size=len(fields["tokenizer.ggml.tokens"]),
    embed=embed,
    layers=int(field("block_count")),
    heads=heads,
    kv_heads=int(field("attention.head_count_kv", heads)),
    head_dim=int(field("attention.key_length", embed // heads)),
    ffn=int(field("feed_forward_length")),
    rope_theta=float(field("rope.freq_base", 10_000.0)),
    norm_eps=float(field("attention.layer_norm_rms_epsilon")),
    tied_embedding=tied,
  )


def _expected(config: Config) -> dict[str, tuple]:
  """Shape of every tensor, innermost axis first as GGUF writes it."""
  D, F, h = config.embed, config.ffn, config.head_dim
  q, kv = config.heads * h, config.kv_heads * h
  layer = {
    "attn_norm": (D,),
    "attn_q": (D, q),
    "attn_k": (D, kv),
    "attn_v": (D, kv),
    "attn_output": (q, D),
    "ffn_norm": (D,),
    "ffn_gate": (D, F),
    "ffn_up": (D, F),
    "ffn_down": (F, D),
  }
  shapes = {
    "token_embd.weight": (D, config.vocab_size),
    "output_norm.weight": (D,),
  }
  if not config.tied_embedding:
    shapes["output.weight"] = (D, config.vocab_size)
  for i in range(config.layers):
    shapes |= {f"blk.{i}.{name}.weight": s for name, s in layer.items()}
  return shapes


def _check(path, found, expected):
  """Refuses a file that holds other tensors than the architecture has."""
  wrong = [f"missing {name}" for name in sorted(set(expected) - set(found))]
  wrong += [f"surplus {name}" for name in sorted(set(found) - set(expected))]
  wrong += [
    f"{name} has shape {found[name]}, not {shape}"
    for name, shape in sorted(expected.items())
    if name in found and tuple(int(n) for n in found[name]) != shape
  ]
  if wrong:
    raise ValueError(f"{path}: {'; '.join(wrong)}")


def _halves(rows, head_dim):
  """Rows [heads * h, D] of pairs (2i, 2i + 1) as rows of halves."""
  heads = rows.shape[0] // head_dim
  pairs = rows.reshape(heads, head_dim // 2, 2, -1)
  return pairs.swapaxes(1, 2).reshape(rows.shape)
