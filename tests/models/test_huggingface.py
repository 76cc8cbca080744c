"""Folders: what is read, what is refused, what is written."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import models, parallel
from jaxroll.models import families
from tests.models import tiny

safetensors_numpy = pytest.importorskip("safetensors.numpy")

CONFIG = tiny.config(qk_norm=True, experts=models.Experts(4, 2), ffn=8)


@pytest.fixture(scope="module")
def params():
  return models.policy(CONFIG).init(jax.random.key(0))


@pytest.fixture
def folder(params, tmp_path):
  made = models.Pretrained(CONFIG, params)
  return models.export(tmp_path / "model", made)


def rewrite(folder, change):
  path = folder / "model.safetensors"
  held = safetensors_numpy.load_file(path)
  change(held)
  safetensors_numpy.save_file(held, path)


def reconfigure(folder, **changes):
  path = folder / "config.json"
  path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_parameters_come_back(params, folder):
  back = models.load(folder)
  assert back.config == CONFIG and back.tokenizer is None
  assert jax.tree.structure(back.params) == jax.tree.structure(params)
  jax.tree.map(np.testing.assert_array_equal, back.params, params)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_of_a_float(params, tmp_path, dtype):
  made = models.Pretrained(CONFIG, params)
  folder = models.export(tmp_path / "model", made, dtype=dtype)
  back = models.load(folder, dtype=dtype)
  rounded = jax.tree.map(lambda x: x.astype(dtype), params)
  jax.tree.map(np.testing.assert_array_equal, back.params, rounded)
  wide = models.load(folder)
  assert all(x.dtype == np.float32 for x in jax.tree.leaves(wide.params))
  # Parameters of half the size are a network too.
  policy = models.policy(CONFIG)
  tokens = jnp.ones((1, 3), jnp.int32)
  positions = jnp.arange(3, dtype=jnp.int32)[None, :]
  hidden, _ = policy.apply(back.params, tokens, positions)
  assert hidden.dtype == jnp.float32


def test_parts_go_to_their_devices(params, folder):
  mesh = parallel.make_mesh(2, 2, 2)
  back = models.load(
    folder, shardings=lambda tree: parallel.shardings(tree, mesh)
  )
  expected = parallel.shardings(params, mesh)

  def same(found, original, sharding):
    assert found.sharding == sharding
    np.testing.assert_array_equal(found, original)

  jax.tree.map(same, back.params, params, expected)
  split = back.params["layers"]["experts"]["gate"]
  assert split.addressable_shards[0].data.shape == (2, 4, 8, 4)
  tokens = jnp.ones((2, 5), jnp.int32)
  positions = jnp.tile(jnp.arange(5, dtype=jnp.int32)[None, :], (2, 1))
  apply = jax.jit(models.policy(CONFIG).apply)
  np.testing.assert_allclose(
    apply(back.params, tokens, positions)[0],
    apply(params, tokens, positions)[0],
    rtol=2e-5,
    atol=2e-6,
  )


def test_everything_wrong_is_listed_at_once(folder):
  name = "model.layers.0.self_attn.q_norm.weight"

  def change(held):
    del held["model.layers.1.mlp.experts.2.up_proj.weight"]
    held["extra.weight"] = np.zeros(2, np.float32)
    held[name] = np.zeros(3, np.float32)
    held["model.norm.weight"] = held["model.norm.weight"].astype(np.float64)
    # These two repeat what is known.
    held["lm_head.weight"] = np.zeros((24, 16), np.float32)
    held["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.zeros(
      4, np.float32
    )

  rewrite(folder, change)
  with pytest.raises(ValueError) as error:
    models.load(folder)
  said = str(error.value)
  assert "missing model.layers.1.mlp.experts.2.up_proj.weight" in said
  assert "surplus extra.weight" in said
  assert f"{name} has shape (3,), not (8,)" in said
  assert "model.norm.weight is F64" in said
  assert "lm_head" not in said and "inv_freq" not in said


@pytest.mark.parametrize(
  "changes, said",
  [
    ({"model_type": "mamba"}, r"model_type='mamba': must be one of \('llama'"),
    (
      {
        "hidden_act": "gelu",
        "mlp_only_layers": [0],
        "decoder_sparse_step": 2,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
        "hidden_size": "wide",
      },
      "rope_type='yarn'.*hidden_act='gelu'.*decoder_sparse_step=2"
      r".*mlp_only_layers=\[0\].*hidden_size='wide'",
    ),
    ({"quantization_config": {"bits": 4}}, "quantization_config"),
    ({"rope_scaling": "linear"}, "rope_scaling='linear': must be dict"),
    ({"num_attention_heads": 0}, "heads=0: must be at least 1"),
  ],
)
def test_other_architectures_are_refused(folder, changes, said):
  reconfigure(folder, **changes)
  with pytest.raises(ValueError, match=said):
    models.load(folder)


def test_an_index_does_not_lead_out_of_its_folder(folder):
  (folder / "model.safetensors").rename(folder.parent / "x.safetensors")
  with pytest.raises(FileNotFoundError, match="save_pretrained"):
    models.load(folder)
  index = {"weight_map": {"lm_head.weight": "../x.safetensors"}}
  (folder / "model.safetensors.index.json").write_text(json.dumps(index))
  with pytest.raises(ValueError, match="no files of this folder.*x.safe"):
    models.load(folder)


def test_sources_that_are_none(tmp_path):
  with pytest.raises(FileNotFoundError, match="'no-such': |'no-such' is"):
    models.load("no-such")
  with pytest.raises(FileNotFoundError, match="config.json"):
    models.load(tmp_path)
  file = tmp_path / "model.bin"
  file.write_bytes(b"")
  with pytest.raises(ValueError, match="named .gguf"):
    models.load(file)
  with pytest.raises(ValueError, match="dtype='int8'"):
    models.load(tmp_path, dtype="int8")


def test_exports_are_whole_or_not_there(params, tmp_path):
  target = tmp_path / "deep" / "model"
  made = models.Pretrained(CONFIG, params)
  wrong = dataclasses.replace(
    made, params=params | {"final_norm": {"scale": jnp.ones(3)}, "more": 1}
  )
  with pytest.raises(ValueError, match=r"surplus more|final_norm/scale has"):
    models.export(target, wrong)
  odd = dataclasses.replace(made, config=tiny.config(o_bias=True))
  with pytest.raises(ValueError, match="no Hugging Face family has o_bias"):
    models.export(target, odd)
  assert not target.exists()
  models.export(target, made)
  assert sorted(p.name for p in target.parent.iterdir()) == ["model"]
  with pytest.raises(FileExistsError, match="is not empty"):
    models.export(target, made)


def test_what_belongs_to_the_tokenizer_goes_along(params, folder, tmp_path):
  reconfigure(folder, eos_token_id=[3, 5], max_position_embeddings=99)
  (folder / "tokenizer_config.json").write_text('{"a": 1}')
  (folder / "generation_config.json").write_text('{"eos_token_id": 5}')
  again = models.export(tmp_path / "again", models.load(folder))
  said = json.loads((again / "config.json").read_text())
  assert said["eos_token_id"] == [3, 5]
  assert said["max_position_embeddings"] == 99
  for name in ("tokenizer_config.json", "generation_config.json"):
    assert (again / name).read_text() == (folder / name).read_text()


def test_llama_3_as_its_folder_says_it():
  """Llama-3.2-1B's config.json, written by Transformers 4.45."""
  values = {
    "attention_bias": False,
    "bos_token_id": 128000,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
      "factor": 32.0,
      "high_freq_factor": 4.0,
      "low_freq_factor": 1.0,
      "original_max_position_embeddings": 8192,
      "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "vocab_size": 128256,
  }
  assert families.from_hf(values) == models.Config(
    vocab_size=128256,
    embed=2048,
    layers=16,
    heads=32,
    kv_heads=8,
    head_dim=64,
    ffn=8192,
    rope_theta=500000.0,
    rope_scaling=models.RopeScaling("llama3", 32.0, 8192, 1.0, 4.0),
    norm_eps=1e-5,
  )
