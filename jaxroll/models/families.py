"""Which model is this? Configurations and tensor names of the families.

`from_hf` and `to_hf` translate between a Hugging Face `config.json` and
`Config`; `tensors` is the one table of where every parameter lies here, in a
Hugging Face checkpoint and in a GGUF file. Loading and export read it both
ways.

  llama      Llama 1-3, SmolLM2           mistral    sliding window
  qwen2      Qwen2, Qwen2.5: bias on qkv  qwen3      norm on query and key heads
  qwen3_moe  a router chooses experts
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxroll.models.config import Config, Experts, RopeScaling

_CLASSES = {
  "llama": "LlamaForCausalLM",
  "mistral": "MistralForCausalLM",
  "qwen2": "Qwen2ForCausalLM",
  "qwen3": "Qwen3ForCausalLM",
  "qwen3_moe": "Qwen3MoeForCausalLM",
}
# What of a configuration is looked into before its numbers are read.
_KINDS = {
  "rope_scaling": dict,
  "rope_parameters": dict,
  "layer_types": list,
  "mlp_only_layers": list,
  "sliding_window": int,
  "max_window_layers": int,
}


class Tensor(NamedTuple):
  """One parameter, here and in files.

  Attributes:
    path: its keys in the tree of parameters.
    shape: of one layer, as it lies here; experts lead.
    hf: its name in a Hugging Face checkpoint, with {layer} and {expert} where
      it is a tensor for each of them.
    gguf: its name in a GGUF file, where experts are one tensor.
    transposed: files have the last two axes the other way round.
  """

  path: tuple[str, ...]
  shape: tuple[int, ...]
  hf: str
  gguf: str
  transposed: bool = False

  @property
  def stacked(self) -> bool:
    """Whether every layer has one, stacked here on a leading axis."""
    return "{layer}" in self.hf

  @property
  def by_expert(self) -> bool:
    """Whether a Hugging Face checkpoint has one for each expert."""
    return "{expert}" in self.hf

  @property
  def file_shape(self) -> tuple[int, ...]:
    """Of one layer, all experts, with the axes in the files' order."""
    if not self.transposed:
      return self.shape
    *lead, rows, columns = self.shape
    return (*lead, columns, rows)


def tensors(config: Config) -> list[Tensor]:
  """Every parameter of a transformer.

  Args:
    config: its sizes and switches.

  Returns:
    A list of `Tensor`.

  >>> [t.hf for t in tensors(Config(vocab_size=8))][:2]
  ['model.embed_tokens.weight', 'model.norm.weight']
  """
  D, F, h = config.embed, config.ffn, config.head_dim
  q, kv = config.heads * h, config.kv_heads * h
  made = [
    Tensor(
      ("embed", "embedding"),
      (config.vocab_size, D),
      "model.embed_tokens.weight",
      "token_embd.weight",
    ),
    Tensor(
      ("final_norm", "scale"), (D,), "model.norm.weight", "output_norm.weight"
    ),
  ]
  if not config.tied_embedding:
    made.append(
      Tensor(
        ("head", "kernel"),
        (D, config.vocab_size),
        "lm_head.weight",
        "output.weight",
        transposed=True,
      )
    )

  def add(path, shape, hf, gguf):
    made.append(
      Tensor(
        ("layers", *path),
        shape,
        f"model.layers.{{layer}}.{hf}",
        f"blk.{{layer}}.{gguf}",
        transposed=len(shape) > 1,
      )
    )

  def norm(name, size, hf, gguf):
    add((name, "scale"), (size,), f"{hf}.weight", f"{gguf}.weight")

  def dense(name, shape, hf, gguf, bias=False):
    add((name, "kernel"), shape, f"{hf}.weight", f"{gguf}.weight")
    if bias:
      add((name, "bias"), shape[1:], f"{hf}.bias", f"{gguf}.bias")

  norm("attention_norm", D, "input_layernorm", "attn_norm")
  dense("q", (D, q), "self_attn.q_proj", "attn_q", config.qkv_bias)
  dense("k", (D, kv), "self_attn.k_proj", "attn_k", config.qkv_bias)
  dense("v", (D, kv), "self_attn.v_proj", "attn_v", config.qkv_bias)
  dense("o", (q, D), "self_attn.o_proj", "attn_output", config.o_bias)
  if config.qk_norm:
    norm("q_norm", h, "self_attn.q_norm", "attn_q_norm")
    norm("k_norm", h, "self_attn.k_norm", "attn_k_norm")
  norm("ffn_norm", D, "post_attention_layernorm", "ffn_norm")
  shapes = {"gate": (D, F), "up": (D, F), "down": (F, D)}
  if config.experts is None:
    for name, shape in shapes.items():
      dense(name, shape, f"mlp.{name}_proj", f"ffn_{name}")
    return made
  E = config.experts.count
  add(
    ("experts", "router", "kernel"),
    (D, E),
    "mlp.gate.weight",
    "ffn_gate_inp.weight",
  )
  for name, shape in shapes.items():
    add(
      ("experts", name),
      (E, *shape),
      f"mlp.experts.{{expert}}.{name}_proj.weight",
      f"ffn_{name}_exps.weight",
    )
  return made


def from_hf(values: Mapping[str, Any]) -> Config:
  """The transformer that a Hugging Face configuration describes.

  Args:
    values: what `config.json` holds, written by any version of Transformers.

  Returns:
    `Config`.

  Raises:
    ValueError: for another family, or for what this transformer cannot do;
      all of it is listed.
  """
  family = values.get("model_type")
  if family not in _CLASSES:
    raise ValueError(f"model_type={family!r}: must be one of {tuple(_CLASSES)}")
  for name, kind in _KINDS.items():
    if not isinstance(values.get(name), kind | None):
      raise ValueError(f"{name}={values[name]!r}: must be {kind.__name__}")
  wrong = _unsupported(family, values)

  def number(name, default=None, kind=int, source=values):
    value = source.get(name)
    value = default if value is None else value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
      return kind(value)
    wrong.append(f"{name}={value!r}: must be a number")
    return kind(1)

  heads = number("num_attention_heads")
  embed = number("hidden_size")
  default_head = 128 if family == "qwen3" else max(1, embed // max(1, heads))
  moe = family == "qwen3_moe"
  layers = number("num_hidden_layers")
  # A wrong rope type is listed already.
  rope = values.get("rope_scaling") or values.get("rope_parameters") or {}
  kind = rope.get("rope_type", rope.get("type", "default"))
  theta = number(
    "rope_theta", values.get("rope_theta", 10_000.0), float, source=rope
  )
  stretch = {}
  if kind in ("linear", "dynamic", "llama3"):
    stretch["factor"] = number("factor", None, float, source=rope)
  if kind == "dynamic":
    stretch["context"] = number("max_position_embeddings")
  if kind == "llama3":
    stretch["low"] = number("low_freq_factor", None, float, source=rope)
    stretch["high"] = number("high_freq_factor", None, float, source=rope)
    stretch["context"] = number(
      "original_max_position_embeddings",
      values.get("max_position_embeddings"),
      source=rope,
    )
  biased = bool(values.get("attention_bias")) and family != "mistral"
  sizes = {
    "vocab_size": number("vocab_size"),
    "embed": embed,
    "layers": layers,
    "heads": heads,
    "kv_heads": number("num_key_value_heads", heads),
    "head_dim": number("head_dim", default_head),
    "ffn": number("moe_intermediate_size" if moe else "intermediate_size"),
    "norm_eps": number("rms_norm_eps", 1e-6, float),
  }
  chosen = {}
  if moe:
    chosen["count"] = number("num_experts", values.get("num_local_experts"))
    chosen["per_token"] = number("num_experts_per_tok")
  if wrong:
    raise ValueError("; ".join(wrong))
  return Config(
    **sizes,
    rope_theta=theta,
    rope_scaling=RopeScaling(kind, **stretch) if stretch else None,
    qk_norm=family in ("qwen3", "qwen3_moe"),
    qkv_bias=True if family == "qwen2" else biased,
    o_bias=False if family == "qwen2" else biased,
    tied_embedding=bool(values.get("tie_word_embeddings", False)),
    windows=_windows(family, values, layers),
    experts=Experts(**chosen, normalised=bool(values.get("norm_topk_prob")))
    if moe
    else None,
  )


def _unsupported(family, values) -> list[str]:
  """What a configuration asks for that the transformer has not."""
  wrong = []
  rope = values.get("rope_scaling") or values.get("rope_parameters") or {}
  kind = rope.get("rope_type", rope.get("type", "default"))
  known = ("default", "linear", "dynamic", "llama3")
  if kind not in known:
    wrong.append(f"rope_type={kind!r}: must be one of {known}")
  activation = values.get("hidden_act", "silu")
  if activation not in ("silu", "swish"):
    wrong.append(f"hidden_act={activation!r}: must be 'silu'")
  allowed = {
    "mlp_bias": (None, False),
    "quantization_config": (None,),
    "partial_rotary_factor": (None, 1),
  }
  if family == "qwen3_moe":
    allowed |= {"decoder_sparse_step": (None, 1), "mlp_only_layers": (None, [])}
  for name, fine in allowed.items():
    value = values.get(name, rope.get(name))
    if value not in fine:
      wrong.append(f"{name}={value!r}: must be {fine[-1]!r}")
  types = values.get("layer_types") or ()
  strange = sorted(
    set(map(str, types)) - {"full_attention", "sliding_attention"}
  )
  if strange:
    wrong.append(f"layer_types has {strange}: full or sliding attention only")
  return wrong


def _windows(family, values, layers) -> tuple[int, ...]:
  """Each layer's window; () where none has one, as Transformers decides it."""
  window = values.get("sliding_window", 4096)
  slides = family == "mistral" or values.get("use_sliding_window", False)
  if family == "llama" or not slides or not window:
    return ()
  if family not in ("qwen2", "qwen3"):
    return (int(window),) * layers
  first = values.get("max_window_layers", 28)
  types = values.get("layer_types") or [
    "sliding_attention" if i >= first else "full_attention"
    for i in range(layers)
  ]
  windows = tuple(int(window) * (t == "sliding_attention") for t in types)
  return windows if any(windows) else ()


def to_hf(config: Config) -> dict[str, Any]:
  """The Hugging Face configuration of a transformer.

  Args:
    config: of one of the families above; `remat` and `dtype` are the run's.

  Returns:
    What `config.json` holds, tokens' numbers and the context's length apart.

  Raises:
    ValueError: for a combination of switches that no family has.
  """
  family = _family(config)
  ffn = "moe_intermediate_size" if config.experts else "intermediate_size"
  values = {
    "architectures": [_CLASSES[family]],
    "model_type": family,
    "vocab_size": config.vocab_size,
    "hidden_size": config.embed,
    "num_hidden_layers": config.layers,
    "num_attention_heads": config.heads,
    "num_key_value_heads": config.kv_heads,
    "head_dim": config.head_dim,
    "intermediate_size": config.ffn,
    ffn: config.ffn,
    "hidden_act": "silu",
    "rms_norm_eps": config.norm_eps,
    "rope_theta": config.rope_theta,
    "rope_scaling": None,
    "tie_word_embeddings": config.tied_embedding,
  }
  if family not in ("qwen2", "mistral"):
    values["attention_bias"] = config.qkv_bias
  if config.experts:
    values["num_experts"] = config.experts.count
    values["num_experts_per_tok"] = config.experts.per_token
    values["norm_topk_prob"] = config.experts.normalised
  scaling = config.rope_scaling
  if scaling:
    rope = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind == "llama3":
      rope["low_freq_factor"] = scaling.low
      rope["high_freq_factor"] = scaling.high
      rope["original_max_position_embeddings"] = scaling.context
    if scaling.kind == "dynamic":
      values["max_position_embeddings"] = scaling.context
    values["rope_scaling"] = rope
  if family != "llama":
    values["sliding_window"] = max(config.windows, default=0) or None
  if family.startswith("qwen"):
    values["use_sliding_window"] = bool(config.windows)
  if family in ("qwen2", "qwen3"):
    names = "full_attention", "sliding_attention"
    windows = config.windows or (0,) * config.layers
    values["layer_types"] = [names[bool(w)] for w in windows]
    # Where they begin is said once more, though the list above decides.
    sliding = [i for i, w in enumerate(windows) if w]
    values["max_window_layers"] = min(sliding, default=config.layers)
  _check_described(config, values)
  return values


def _check_described(config, values):
  """Refuses a configuration that would be read back as another function."""
  back = from_hf(values)
  ours = dataclasses.asdict(config) | {"remat": "none", "dtype": "float32"}
  lost = {
    name: value
    for name, value in dataclasses.asdict(back).items()
    if value != ours[name] and name != "rope_scaling"
  }
  if lost:
    shown = ", ".join(f"{name}={ours[name]!r}" for name in lost)
    raise ValueError(
      f"no Hugging Face family has {shown} (the nearest, "
      f"{values['model_type']}, has {lost}): save a checkpoint instead"
    )


def _family(config) -> str:
  if config.experts:
    return "qwen3_moe"
  if config.qk_norm:
    return "qwen3"
  if config.qkv_bias:
    return "llama" if config.o_bias else "qwen2"
  # Transformers refuses a Llama whose heads do not divide its width; without
  # a window Mistral is the same function.
  uneven = config.embed % config.heads
  return "mistral" if config.windows or uneven else "llama"
