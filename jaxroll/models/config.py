"""Which transformer? Sizes and switches; every family is a setting of them."""

import dataclasses

_REMATS = ("none", "full", "dots")
_DTYPES = ("float32", "bfloat16", "float16")
_SCALINGS = ("linear", "dynamic", "llama3")


def _at_least_one(record, names):
  for name in names:
    if getattr(record, name) < 1:
      raise ValueError(f"{name}={getattr(record, name)}: must be at least 1")


@dataclasses.dataclass(frozen=True)
class RopeScaling:
  """How rotary frequencies are stretched to contexts beyond the trained one.

  Attributes:
    kind: "linear" divides all by `factor` (Chen et al. 2023, arXiv:2306.15595).
      "llama3" divides those whose wavelength is above context / low, keeps
      those below context / high and interpolates between (Grattafiori et al.
      2024, arXiv:2407.21783). "dynamic" raises the base once a row is longer
      than `context`: by each row's own length in the call, so that beyond it
      a cached pass, whose keys were turned earlier, is another function than
      a full one, as it is in Transformers.
    factor: of the stretch, at least 1.
    context: the length trained on; not read by "linear".
    low, high: read by "llama3", 0 < low < high.
  """

  kind: str
  factor: float
  context: int = 8192
  low: float = 1.0
  high: float = 4.0

  def __post_init__(self):
    if self.kind not in _SCALINGS:
      raise ValueError(f"kind={self.kind!r}: one of {_SCALINGS}")
    if not self.factor >= 1:
      raise ValueError(f"factor={self.factor}: must be at least 1")
    _at_least_one(self, ("context",))
    if not 0 < self.low < self.high:
      raise ValueError(f"low={self.low}, high={self.high}: 0 < low < high")


@dataclasses.dataclass(frozen=True)
class Experts:
  """A feed-forward layer of many, of which a router chooses few for a token.

  Attributes:
    count: experts a layer, E.
    per_token: chosen for each token, in 1 ... count.
    normalised: the chosen ones' probabilities are divided by their sum.
  """

  count: int
  per_token: int
  normalised: bool = True

  def __post_init__(self):
    _at_least_one(self, ("count",))
    if not 1 <= self.per_token <= self.count:
      raise ValueError(
        f"per_token={self.per_token}: must be in [1, count={self.count}]"
      )


@dataclasses.dataclass(frozen=True)
class Config:
  """Shape of a transformer.

  Attributes:
    vocab_size, embed, layers, heads, kv_heads, head_dim, ffn: sizes; with
      experts, `ffn` is the width of one.
    rope_theta: base of the rotary frequencies.
    rope_scaling: their stretch, or None.
    norm_eps: added to the mean square in RMSNorm.
    qk_norm: RMSNorm on each query and key head (Qwen3).
    qkv_bias: bias on the query, key and value projections (Qwen2).
    o_bias: bias on the attention's output projection.
    tied_embedding: the output matrix is the embedding's transpose.
    windows: a layer's own each: how many positions back a query sees, itself
      included, 0 for all (Mistral); () is all of them in every layer.
    experts: of every feed-forward layer, or None for a dense one.
    remat: "none", "full" or "dots": what the backward pass recomputes.
    dtype: of activations; parameters have their own, as a rule float32.
  """

  vocab_size: int
  embed: int = 128
  layers: int = 2
  heads: int = 4
  kv_heads: int = 2
  head_dim: int = 32
  ffn: int = 384
  rope_theta: float = 10_000.0
  rope_scaling: RopeScaling | None = None
  norm_eps: float = 1e-6
  qk_norm: bool = False
  qkv_bias: bool = False
  o_bias: bool = False
  tied_embedding: bool = True
  windows: tuple[int, ...] = ()
  experts: Experts | None = None
  remat: str = "none"
  dtype: str = "float32"

  def __post_init__(self):
    sizes = ("vocab_size", "embed", "layers", "heads", "kv_heads", "head_dim")
    _at_least_one(self, (*sizes, "ffn"))
    if self.heads % self.kv_heads:
      raise ValueError(
        f"heads={self.heads} is not a multiple of kv_heads={self.kv_heads}"
      )
    if self.head_dim % 2:
      raise ValueError(
        f"head_dim={self.head_dim}: rotary positions need an even number"
      )
    for name in ("rope_theta", "norm_eps"):
      if not getattr(self, name) > 0:
        raise ValueError(f"{name}={getattr(self, name)}: must be above 0")
    if len(self.windows) not in (0, self.layers) or min(self.windows + (0,)):
      raise ValueError(
        f"windows={self.windows}: () or layers={self.layers} numbers, each at "
        "least 1, or 0 for a layer that sees everything"
      )
    for name, known in (("remat", _REMATS), ("dtype", _DTYPES)):
      if getattr(self, name) not in known:
        raise ValueError(f"{name}={getattr(self, name)!r}: one of {known}")
