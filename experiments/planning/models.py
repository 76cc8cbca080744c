"""How large are the pretrained models? Their public configurations.

Numbers of each model's `config.json` on its publisher's page: SmolLM2 (Allal
et al. 2025, arXiv:2502.02737), Qwen2.5 (Yang et al. 2024, arXiv:2412.15115),
Qwen3 (Yang et al. 2025, arXiv:2505.09388).
"""

import dataclasses

from jaxroll import models

_QWEN2 = dict(rope_theta=1_000_000.0, norm_eps=1e-6, qkv_bias=True)
_QWEN3 = dict(rope_theta=1_000_000.0, norm_eps=1e-6, qk_norm=True)

CONFIGS = {
  "smollm2_135m": models.Config(
    vocab_size=49_152,
    embed=576,
    layers=30,
    heads=9,
    kv_heads=3,
    head_dim=64,
    ffn=1536,
    rope_theta=100_000.0,
    norm_eps=1e-5,
  ),
  "qwen2_5_0_5b": models.Config(
    vocab_size=151_936,
    embed=896,
    layers=24,
    heads=14,
    kv_heads=2,
    head_dim=64,
    ffn=4864,
    **_QWEN2,
  ),
  "qwen2_5_1_5b": models.Config(
    vocab_size=151_936,
    embed=1536,
    layers=28,
    heads=12,
    kv_heads=2,
    head_dim=128,
    ffn=8960,
    **_QWEN2,
  ),
  "qwen2_5_7b": models.Config(
    vocab_size=152_064,
    embed=3584,
    layers=28,
    heads=28,
    kv_heads=4,
    head_dim=128,
    ffn=18_944,
    tied_embedding=False,
    **_QWEN2,
  ),
  "qwen3_8b": models.Config(
    vocab_size=151_936,
    embed=4096,
    layers=36,
    heads=32,
    kv_heads=8,
    head_dim=128,
    ffn=12_288,
    tied_embedding=False,
    **_QWEN3,
  ),
  "qwen3_30b_a3b": models.Config(
    vocab_size=151_936,
    embed=2048,
    layers=48,
    heads=32,
    kv_heads=4,
    head_dim=128,
    ffn=768,
    tied_embedding=False,
    experts=models.Experts(count=128, per_token=8),
    **_QWEN3,
  ),
  # For trials: compiles in seconds.
  "tiny": models.Config(vocab_size=64, embed=32, layers=3, ffn=64, head_dim=8),
}


def config(name: str, *, dtype: str, remat: str) -> models.Config:
  """A model's sizes.

  Args:
    name: a key of `CONFIGS`.
    dtype: of activations.
    remat: what the backward pass recomputes.

  Returns:
    The `models.Config`.

  Raises:
    ValueError: for a name that is not known, which lists those that are.

  Example:
    >>> config("qwen2_5_7b", dtype="bfloat16", remat="full").kv_heads
    4
  """
  if name not in CONFIGS:
    raise ValueError(
      f"--model={name} is not known: choose one of {', '.join(CONFIGS)}"
    )
  return dataclasses.replace(CONFIGS[name], dtype=dtype, remat=remat)
