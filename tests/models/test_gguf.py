"""A GGUF file becomes the same network, and a wrong one is refused."""

import jax
import numpy as np
import pytest

from jaxroll import models
from jaxroll.models import gguf as loader
from tests.models import tiny

gguf = pytest.importorskip("gguf")

CONFIG = tiny.config(vocab_size=260, norm_eps=2.0**-17, rope_theta=500.0)
TOKENS = ["<end>", "<im>", "a", "b", "ab", *(f"t{i}" for i in range(255))]


def pairs(kernel):
  """[D, heads * h] of halves as GGUF's rows [heads * h, D] of pairs.

  Row i of a head goes to 2i, row h/2 + i to 2i + 1.
  """
  rows = np.asarray(kernel).T
  h, out = CONFIG.head_dim, np.empty_like(rows)
  for head in range(rows.shape[0] // h):
    for i in range(h // 2):
      out[head * h + 2 * i] = rows[head * h + i]
      out[head * h + 2 * i + 1] = rows[head * h + h // 2 + i]
  return out


def write(path, params, *, architecture="llama", leave_out=(), more=()):
  writer = gguf.GGUFWriter(path, architecture)
  writer.add_block_count(CONFIG.layers)
  writer.add_embedding_length(CONFIG.embed)
  writer.add_feed_forward_length(CONFIG.ffn)
  writer.add_head_count(CONFIG.heads)
  writer.add_head_count_kv(CONFIG.kv_heads)
  writer.add_key_length(CONFIG.head_dim)
  writer.add_layer_norm_rms_eps(CONFIG.norm_eps)
  writer.add_rope_freq_base(CONFIG.rope_theta)
  writer.add_tokenizer_model("gpt2")
  writer.add_tokenizer_pre("smollm")
  writer.add_token_list(TOKENS)
  writer.add_token_types([3, 3, *([1] * 258)])
  writer.add_token_merges(["a b"])
  writer.add_eos_token_id(0)
  writer.add_chat_template("{{ messages[0]['content'] }}")
  tensors = {
    "token_embd.weight": params["embed"]["embedding"],
    "output_norm.weight": params["final_norm"]["scale"],
  }
  for i in range(CONFIG.layers):
    layer = jax.tree.map(lambda x, i=i: np.asarray(x[i]), params["layers"])
    tensors |= {
      f"blk.{i}.attn_norm.weight": layer["attention_norm"]["scale"],
      f"blk.{i}.attn_q.weight": pairs(layer["q"]["kernel"]),
      f"blk.{i}.attn_k.weight": pairs(layer["k"]["kernel"]),
      f"blk.{i}.attn_v.weight": layer["v"]["kernel"].T,
      f"blk.{i}.attn_output.weight": layer["o"]["kernel"].T,
      f"blk.{i}.ffn_norm.weight": layer["ffn_norm"]["scale"],
      f"blk.{i}.ffn_gate.weight": layer["gate"]["kernel"].T,
      f"blk.{i}.ffn_up.weight": layer["up"]["kernel"].T,
      f"blk.{i}.ffn_down.weight": layer["down"]["kernel"].T,
    }
  for name in leave_out:
    del tensors[name]
  for name in more:
    tensors[name] = np.zeros(3, np.float32)
  for name, value in tensors.items():
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
  "changes, said",
  [
    ({"architecture": "mamba"}, "'mamba': must be one of"),
    ({"leave_out": ("blk.1.attn_q.weight",)}, "missing blk.1.attn_q.weight"),
    ({"more": ("blk.0.attn_q.bias",)}, "surplus blk.0.attn_q.bias"),
    (
      {
        "leave_out": ("output_norm.weight",),
        "more": ("output_norm.weight",),
      },
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
