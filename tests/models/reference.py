"""The transformer once more, in float64 numpy, one head at a time."""

import numpy as np


def forward(params, config, tokens, positions):
  """Hidden states and logits of one row of tokens without padding."""
  embedding = np.float64(params["embed"]["embedding"])
  x = embedding[tokens]
  for i in range(config.layers):
    layer = {
      part: {name: np.float64(leaf[i]) for name, leaf in leaves.items()}
      for part, leaves in params["layers"].items()
    }
    x = _block(layer, config, x, positions)
  hidden = _norm(x, np.float64(params["final_norm"]["scale"]), config)
  if config.tied_embedding:
    return hidden, hidden @ embedding.T
  return hidden, hidden @ np.float64(params["head"]["kernel"])


def _block(layer, config, x, positions):
  def project(name, y):
    return y @ layer[name]["kernel"] + layer[name].get("bias", 0.0)

  def head(name, y, n):
    piece = y[:, n * config.head_dim : (n + 1) * config.head_dim]
    if config.qk_norm and name in ("q", "k"):
      piece = _norm(piece, layer[f"{name}_norm"]["scale"], config)
    return piece if name == "v" else _turn(piece, positions, config)

  y = _norm(x, layer["attention_norm"]["scale"], config)
  q, k, v = (project(name, y) for name in "qkv")
  mixed = []
  for n in range(config.heads):
    shared = n // (config.heads // config.kv_heads)
    mixed.append(
      _attend(head("q", q, n), head("k", k, shared), head("v", v, shared))
    )
  x = x + project("o", np.concatenate(mixed, axis=1))
  y = _norm(x, layer["ffn_norm"]["scale"], config)
  gate = project("gate", y)
  return x + project("down", gate / (1 + np.exp(-gate)) * project("up", y))


def _norm(x, scale, config):
  mean_square = (x**2).mean(axis=-1, keepdims=True)
  return x / np.sqrt(mean_square + config.norm_eps) * scale


def _turn(x, positions, config):
  """Rotary positions: coordinates j and j + h/2 are one complex number."""
  half = config.head_dim // 2
  pair = x[:, :half] + 1j * x[:, half:]
  frequency = config.rope_theta ** (-np.arange(half) / half)
  pair = pair * np.exp(1j * positions[:, None] * frequency[None, :])
  return np.concatenate([pair.real, pair.imag], axis=1)


def _attend(q, k, v):
  """Causal attention of one head."""
  out = np.zeros_like(v)
  for i in range(len(q)):
    score = k[: i + 1] @ q[i] / np.sqrt(q.shape[1])
    weight = np.exp(score - score.max())
    out[i] = weight @ v[: i + 1] / weight.sum()
  return out
