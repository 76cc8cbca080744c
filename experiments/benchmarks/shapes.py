"""Which model, and which rows? The same ones for every framework.

A model in the style of Qwen3 (norm on queries and keys, grouped queries,
SwiGLU, an output matrix of its own), float32, with drawn weights: its tokens
are near to uniform, so where 1 / 16 of the vocabulary ends a row the length is
geometric of mean 16, cut at `new`.
"""

from typing import NamedTuple

import numpy as np

from jaxroll import models

GROUP = 8  # rows of a prompt
FIRST = 3  # below are ids that some tokenizers keep for padding and ends


class Shapes(NamedTuple):
  """Sizes of a model and of the rows that it writes.

  Attributes:
    layers, embed, heads, kv_heads, ffn, vocab: of the model; a head has
      embed / heads dimensions.
    prompt: tokens of a prompt. new: most tokens of a row.
    rows: of a step or an update, 8 a prompt.
    slots: rows decoded at once, 0 for the fastest of a few.
    micro_rows: rows of one forward and backward pass.
    stop_fraction: share of the vocabulary that ends a ragged row.
    dtype: of activations.
  """

  layers: int
  embed: int
  heads: int
  kv_heads: int
  ffn: int
  vocab: int
  prompt: int = 32
  new: int = 64
  rows: int = 64
  slots: int = 0
  micro_rows: int = 16
  stop_fraction: float = 1 / 16
  dtype: str = "float32"


SIZES = {
  "tiny": Shapes(4, embed=128, heads=4, kv_heads=2, ffn=512, vocab=512),
  "mid": Shapes(12, embed=512, heads=8, kv_heads=4, ffn=2048, vocab=4096),
  # As large as SmolLM2-135M, but for an output matrix of its own.
  "smollm2": Shapes(30, embed=576, heads=9, kv_heads=3, ffn=1536, vocab=49152),
}


class Batch(NamedTuple):
  """Rows as some sampler might have written them, the same for everyone.

  Attributes:
    prompts: i32[P, S]. tokens: i32[B, T], GROUP rows of each prompt in order.
    length: i32[B]. adv: f32[B].
  """

  prompts: np.ndarray
  tokens: np.ndarray
  length: np.ndarray
  adv: np.ndarray


def check(shapes: Shapes) -> None:
  """Refuses shapes that nothing can have.

  Raises:
    ValueError: naming the number and its range.
  """
  for name in ("prompt", "new", "rows", "micro_rows"):
    if getattr(shapes, name) < 1:
      raise ValueError(f"{name}={getattr(shapes, name)}: must be at least 1")
  if shapes.rows % GROUP:
    raise ValueError(
      f"rows={shapes.rows}: must be a multiple of {GROUP}, the rows of a prompt"
    )
  if shapes.slots < 0:
    raise ValueError(
      f"slots={shapes.slots}: must be at least 1, or 0 for the fastest of a few"
    )
  if not 0 < shapes.stop_fraction <= 0.5:
    raise ValueError(
      f"stop_fraction={shapes.stop_fraction}: must be in (0, 0.5]"
    )
  if shapes.heads < 1 or shapes.embed % shapes.heads:
    raise ValueError(
      f"embed={shapes.embed} must be a multiple of heads={shapes.heads}"
    )
  if len(stop_tokens(shapes)) < 1 or shapes.vocab < 2 * FIRST:
    raise ValueError(
      f"vocab={shapes.vocab}: must be at least {2 * FIRST}, and vocab * "
      f"stop_fraction={shapes.vocab * shapes.stop_fraction} at least 1"
    )
  config(shapes)


def config(shapes: Shapes) -> models.Config:
  """The model's sizes as jaxroll has them."""
  return models.Config(
    vocab_size=shapes.vocab,
    embed=shapes.embed,
    layers=shapes.layers,
    heads=shapes.heads,
    kv_heads=shapes.kv_heads,
    head_dim=shapes.embed // shapes.heads,
    ffn=shapes.ffn,
    rope_theta=1e6,
    qk_norm=True,
    tied_embedding=False,
    dtype=shapes.dtype,
  )


def stop_tokens(shapes: Shapes) -> list[int]:
  """The ids that end a ragged row: the vocabulary's last."""
  stops = int(shapes.vocab * shapes.stop_fraction)
  return list(range(shapes.vocab - stops, shapes.vocab))


def prompts(shapes: Shapes, num: int, seed: int = 0) -> np.ndarray:
  """Prompts of full length, i32[num, S], the same for the same seed."""
  rng = np.random.default_rng(seed)
  size = (num, shapes.prompt)
  return rng.integers(FIRST, shapes.vocab, size).astype(np.int32)


def batch(shapes: Shapes, *, ragged: bool) -> Batch:
  """The rows of an update, all of `new` tokens or of geometric length."""
  rng = np.random.default_rng(1)
  rows, stops = shapes.rows, stop_tokens(shapes)
  tokens = rng.integers(FIRST, stops[0], (rows, shapes.new)).astype(np.int32)
  length = np.full(rows, shapes.new, np.int32)
  if ragged:
    drawn = rng.geometric(shapes.stop_fraction, rows)
    length = np.minimum(drawn, shapes.new).astype(np.int32)
    ends = np.flatnonzero(drawn <= shapes.new)
    tokens[ends, length[ends] - 1] = rng.choice(stops, len(ends))
  adv = rng.normal(size=rows).astype(np.float32)
  return Batch(prompts(shapes, rows // GROUP), tokens, length, adv)


# --- the least work


def weights(shapes: Shapes) -> tuple[int, int]:
  """Weights that a token is multiplied with: in all layers, in the head."""
  head_dim = shapes.embed // shapes.heads
  attention = 2 * shapes.heads + 2 * shapes.kv_heads
  layer = shapes.embed * (attention * head_dim + 3 * shapes.ffn)
  return shapes.layers * layer, shapes.embed * shapes.vocab


def parameters(shapes: Shapes) -> int:
  """Weights of the matrices, the embedding's included."""
  layers, head = weights(shapes)
  return layers + 2 * head


def row_flops(shapes: Shapes, length) -> float:
  """Of the tokens of rows after their prompts: products and attention.

  Args:
    shapes: of the model.
    length: i[B], tokens of each row.
  """
  length = np.asarray(length, np.float64)
  layers, head = weights(shapes)
  seen = length * shapes.prompt + length * (length + 1) / 2
  attention = 4 * shapes.layers * shapes.embed * seen
  return float(np.sum(2 * (layers + head) * length + attention))


def prompt_flops(shapes: Shapes, num: int) -> float:
  """Of `num` prompts: products and attention, without logits."""
  layers, _ = weights(shapes)
  seen = shapes.prompt * (shapes.prompt + 1) / 2
  attention = 4 * shapes.layers * shapes.embed * seen
  return num * (2 * layers * shapes.prompt + attention)
