"""A GGUF file becomes the same network, and a wrong one is refused."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxroll import models, parallel
from jaxroll.models import gguf as loader
from tests.models import tiny

gguf = pytest.importorskip("gguf")

CONFIG = tiny.config(vocab_size=260, norm_eps=2.0**-17, rope_theta=500.0)
TOKENS = ["<end>", "<im>", "a", "b", "ab", *(f"t{i}" for i in range(255))]


def pairs(kernel, h=CONFIG.head_dim):
  """[D, heads * h] of halves as GGUF's rows [heads * h, D] of pairs.

  Row i of a head goes to 2i, row h/2 + i to 2i + 1.
  """
  rows = np.asarray(kernel).T
  out = np.empty_like(rows)
  for head in range(rows.shape[0] // h):
    for i in range(h // 2):
      out[head * h + 2 * i] = rows[head * h + i]
      out[head * h + 2 * i + 1] = rows[head * h + h // 2 + i]
  return out


def named(params, config, architecture):
  """The tensors of a file by their names."""
  tensors = {
    "token_embd.weight": params["embed"]["embedding"],
    "output_norm.weight": params["final_norm"]["scale"],
  }
  if not config.tied_embedding:
    tensors["output.weight"] = params["head"]["kernel"].T
  turned = pairs if architecture == "llama" else np.transpose
  for i in range(config.layers):
    layer = jax.tree.map(lambda x, i=i: np.asarray(x[i]), params["layers"])
    made = {
      "attn_norm.weight": layer["attention_norm"]["scale"],
      "attn_q.weight": turned(layer["q"]["kernel"]),
      "attn_k.weight": turned(layer["k"]["kernel"]),
      "attn_v.weight": layer["v"]["kernel"].T,
      "attn_output.weight": layer["o"]["kernel"].T,
      "ffn_norm.weight": layer["ffn_norm"]["scale"],
    }
    if config.experts:
      experts = layer["experts"]
      made["ffn_gate_inp.weight"] = experts["router"]["kernel"].T
      for name in ("gate", "up", "down"):
        made[f"ffn_{name}_exps.weight"] = experts[name].swapaxes(1, 2)
    else:
      for name in ("gate", "up", "down"):
        made[f"ffn_{name}.weight"] = layer[name]["kernel"].T
    for name in "qkv" if config.qkv_bias else "":
      made[f"attn_{name}.bias"] = layer[name]["bias"]
    for name in "qk" if config.qk_norm else "":
      made[f"attn_{name}_norm.weight"] = layer[f"{name}_norm"]["scale"]
    tensors |= {f"blk.{i}.{name}": value for name, value in made.items()}
  return tensors


def write(
  path, params, *, config=CONFIG, architecture="llama", leave_out=(), more=()
):
  writer = gguf.GGUFWriter(path, architecture)
  writer.add_block_count(config.layers)
  writer.add_embedding_length(config.embed)
  writer.add_feed_forward_length(config.ffn)
  if config.experts:
    writer.add_expert_feed_forward_length(config.ffn)
    writer.add_expert_count(config.experts.count)
    writer.add_expert_used_count(config.experts.per_token)
  writer.add_context_length(77)
  writer.add_head_count(config.heads)
  writer.add_head_count_kv(config.kv_heads)
  writer.add_key_length(config.head_dim)
  writer.add_layer_norm_rms_eps(config.norm_eps)
  writer.add_rope_freq_base(config.rope_theta)
  writer.add_tokenizer_model("gpt2")
  writer.add_tokenizer_pre("smollm")
  writer.add_token_list(TOKENS)
  writer.add_token_types([3, 3, *([1] * 258)])
  writer.add_token_merges(["a b"])
  writer.add_eos_token_id(0)
  writer.add_chat_template("{{ messages[0]['content'] }}")
  tensors = named(params, config, architecture)
  for name in leave_out:
    del tensors[name]
  tensors |= dict(more)
  for name, value in tensors.items():
    if isinstance(value, tuple):  # bytes of a kind
      raw, kind = value
      writer.add_tensor(name, raw, raw_dtype=kind)
    else:
      writer.add_tensor(name, np.ascontiguousarray(value, np.float32))
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return path


@pytest.fixture(scope="module")
def params():
  return models.policy(CONFIG).init(jax.random.key(0))


def test_weights_and_sizes_come_back(params, tmp_path):
  made = loader.load(write(tmp_path / "model.gguf", params))
  assert made.config == CONFIG
  assert jax.tree.structure(made.params) == jax.tree.structure(params)
  for found, original in zip(*map(jax.tree.leaves, (made.params, params))):
    np.testing.assert_array_equal(found, original)


@pytest.mark.parametrize(
  "architecture, changes",
  [
    ("qwen2", {"qkv_bias": True}),
    ("qwen3", {"qk_norm": True, "tied_embedding": False}),
    ("qwen3moe", {"qk_norm": True, "experts": models.Experts(3, 2)}),
  ],
)
def test_the_qwens(tmp_path, architecture, changes):
  config = dataclasses.replace(CONFIG, **changes)
  original = models.policy(config).init(jax.random.key(1))
  path = write(
    tmp_path / "m.gguf", original, config=config, architecture=architecture
  )
  made = models.load(path)
  assert made.config == config
  assert made.details["max_position_embeddings"] == 77
  jax.tree.map(np.testing.assert_array_equal, made.params, original)


def test_stretched_frequencies(params, tmp_path):
  """Llama 3.1's divisors, a wavelength each: 1, between, and the factor."""
  scaling = models.RopeScaling("llama3", 8.0)
  config = dataclasses.replace(CONFIG, rope_theta=5e5, rope_scaling=scaling)
  # h = 8: frequencies 5e5^(-i/4), wavelengths 6.3, 167, 4443 and 118143 of
  # 8192: 1304, 49, 1.8438 and 0.07 turns. Kept (1.8438 - 1) / 3 = 0.28125,
  # a divisor of 1 / (0.28125 + 0.71875 / 8) = 2.6945.
  more = {"rope_freqs.weight": np.array([1.0, 1.0, 2.6945, 8.0])}
  made = loader.load(
    write(tmp_path / "a.gguf", params, config=config, more=more)
  )
  assert made.config == config
  more = {"rope_freqs.weight": np.array([1.0, 2.0, 2.6945, 8.0])}
  with pytest.raises(ValueError, match="not the divisors of a Llama 3"):
    loader.load(write(tmp_path / "b.gguf", params, config=config, more=more))


def block(kind):
  """Random bytes of a kind for [256, 256], with scales that are finite."""
  rng = np.random.default_rng(0)
  size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
  raw = rng.integers(0, 256, (256, 256 // size[0], size[1]), dtype=np.uint8)
  scale = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
  if kind == "Q6_K":
    raw[..., -2:] = scale
  else:
    raw[..., 0:2] = raw[..., 2:4] = scale
  return raw.reshape(256, -1)


@pytest.mark.parametrize(
  "kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K"]
)
def test_stored_types(tmp_path, kind):
  config = dataclasses.replace(CONFIG, embed=256, ffn=256, layers=1)
  original = models.policy(config).init(jax.random.key(1))
  which = gguf.GGMLQuantizationType[kind]
  name = "blk.0.ffn_down.weight"
  values = np.asarray(original["layers"]["down"]["kernel"][0].T)
  if kind in ("Q4_K", "Q6_K"):  # the package only reads these
    raw = block(kind)
    values = gguf.quants.dequantize(raw, which)
    tolerance = 0.0
  else:
    raw = gguf.quants.quantize(values, which)
    # Of a block's largest: 4 bits have steps of an eighth of it.
    step = {"F16": 2**-10, "BF16": 2**-7, "Q8_0": 2**-6}.get(kind, 0.15)
    tolerance = step * np.abs(values).max()
  path = tmp_path / "m.gguf"
  made = loader.load(
    write(path, original, config=config, more={name: (raw, which)})
  )
  found = made.params["layers"]["down"]["kernel"][0].T
  assert np.isfinite(found).all() and np.abs(found).max() > 0
  np.testing.assert_allclose(found, values, rtol=0, atol=tolerance)


def test_parts_go_to_their_devices(params, tmp_path):
  path = write(tmp_path / "model.gguf", params)
  mesh = parallel.make_mesh(2, 2, 2)
  made = models.load(
    path,
    dtype="bfloat16",
    shardings=lambda tree: parallel.shardings(tree, mesh),
  )
  expected = jax.tree.map(lambda x: x.astype("bfloat16"), params)
  jax.tree.map(np.testing.assert_array_equal, made.params, expected)
  split = made.params["layers"]["q"]["kernel"]
  assert split.addressable_shards[0].data.shape == (2, 8, 16)


@pytest.mark.parametrize(
  "changes, said",
  [
    ({"architecture": "mamba"}, "'mamba': must be one of"),
    ({"leave_out": ("blk.1.attn_q.weight",)}, "missing blk.1.attn_q.weight"),
    (
      {"more": {"blk.0.attn_q.bias": np.zeros(3)}},
      "surplus blk.0.attn_q.bias",
    ),
    (
      {"more": {"output_norm.weight": np.zeros(3)}},
      r"output_norm.weight has shape .*3.*, not \(16,\)",
    ),
  ],
)
def test_a_file_of_something_else_is_refused(params, tmp_path, changes, said):
  with pytest.raises(ValueError, match=said):
    loader.load(write(tmp_path / "model.gguf", params, **changes))


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(FileNotFoundError, match="nothing.gguf"):
    loader.load(tmp_path / "nothing.gguf")
