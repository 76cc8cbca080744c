"""Does every family compute what Transformers computes? Run side by side."""

import dataclasses
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import models, types
from jaxroll.models import smollm2

# Nothing here may ask a server for a model.
os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

V, S, T = 40, 9, 5
LENGTHS = (9, 4, 7)
SIZES = {
  "vocab_size": V,
  "hidden_size": 16,
  "intermediate_size": 24,
  "num_hidden_layers": 2,
  "num_attention_heads": 4,
  "num_key_value_heads": 2,
  "max_position_embeddings": 64,
  "eos_token_id": None,
}
LLAMA3 = {
  "rope_type": "llama3",
  "factor": 8.0,
  "low_freq_factor": 1.0,
  "high_freq_factor": 4.0,
  "original_max_position_embeddings": 64,
  "rope_theta": 50.0,
}
MOE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 12}


def rope(kind, factor):
  return {"rope_type": kind, "factor": factor, "rope_theta": 10_000.0}


FAMILIES = {
  "llama2": ("Llama", {"num_key_value_heads": 4}),
  "llama3": ("Llama", {"rope_parameters": LLAMA3}),
  "llama_linear": ("Llama", {"rope_parameters": rope("linear", 2.0)}),
  "llama_dynamic": ("Llama", {"rope_parameters": rope("dynamic", 2.0)}),
  "llama_biased": ("Llama", {"attention_bias": True, "head_dim": 6}),
  "smollm2": ("Llama", {"tie_word_embeddings": True, "rms_norm_eps": 1e-5}),
  "mistral": ("Mistral", {"sliding_window": 3}),
  "mistral_full": ("Mistral", {"sliding_window": None, "head_dim": 8}),
  "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
  "qwen2_windows": (
    "Qwen2",
    {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1},
  ),
  "qwen3": ("Qwen3", {"head_dim": 8}),
  "qwen3_moe": ("Qwen3Moe", MOE | {"norm_topk_prob": True}),
  "qwen3_moe_plain": ("Qwen3Moe", MOE | {"norm_topk_prob": False}),
}
rng = np.random.default_rng(0)
TOKENS = rng.integers(3, V, (len(LENGTHS), S))


def padded(side):
  """Tokens, mask and positions of rows of LENGTHS, padded on one side."""
  tokens = np.zeros((len(LENGTHS), S), np.int32)
  mask = np.zeros((len(LENGTHS), S), bool)
  for row, length in enumerate(LENGTHS):
    at = slice(S - length, S) if side == "left" else slice(0, length)
    tokens[row, at] = TOKENS[row, :length]
    mask[row, at] = True
  positions = np.where(mask, np.cumsum(mask, axis=1) - 1, types.EMPTY)
  return tokens, mask, positions.astype(np.int32)


def theirs(network, tokens, mask, positions):
  with torch.no_grad():
    out = network(
      input_ids=torch.tensor(tokens, dtype=torch.long),
      attention_mask=torch.tensor(mask, dtype=torch.long),
      position_ids=torch.tensor(np.where(mask, positions, 1)).long(),
    )
  return out.logits.float().numpy()


def forward_of(config):
  policy = models.policy(config)

  @jax.jit
  def forward(params, tokens, positions):
    return policy.unembed(params, policy.apply(params, tokens, positions)[0])

  return forward


def network_of(made):
  """Theirs, with noise on every parameter: biases are 0 and norms 1 else."""
  torch.manual_seed(0)
  network = transformers.AutoModelForCausalLM.from_config(
    made, dtype=torch.float32, attn_implementation="eager"
  )
  with torch.no_grad():
    for parameter in network.parameters():
      parameter.add_(torch.randn_like(parameter) * 0.3)
  return network.eval()


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
  """Theirs, and ours from the folder that theirs was saved to."""
  name, changes = FAMILIES[request.param]
  made = getattr(transformers, f"{name}Config")(**(SIZES | changes))
  network = network_of(made)
  folder = tmp_path_factory.mktemp(request.param)
  network.save_pretrained(folder)
  ours = models.load(folder)
  return network, ours, forward_of(ours.config)


def close(found, expected, mask):
  error = np.abs(np.asarray(found)[mask] - expected[mask]).max()
  assert error < 1e-5 * max(1.0, np.abs(expected[mask]).max())


@pytest.mark.parametrize("side", ["right", "left"])
def test_logits_are_equal(family, side):
  network, ours, forward = family
  tokens, mask, positions = padded(side)
  expected = theirs(network, tokens, mask, positions)
  close(forward(ours.params, tokens, positions), expected, mask)


def test_greedy_generations_are_identical(family):
  network, ours, forward = family
  tokens, mask, positions = padded("left")
  config = transformers.GenerationConfig(
    max_new_tokens=T, do_sample=False, pad_token_id=0, eos_token_id=None
  )
  expected = network.generate(
    torch.tensor(tokens, dtype=torch.long),
    attention_mask=torch.tensor(mask, dtype=torch.long),
    generation_config=config,
  ).numpy()[:, S:]
  wide = ((0, 0), (0, T))
  tokens = np.pad(tokens, wide)
  positions = np.pad(positions, wide, constant_values=types.EMPTY)
  for t in range(T):
    at = S + t
    found = forward(ours.params, tokens, positions)[:, at - 1]
    tokens[:, at] = np.argmax(found, axis=-1)
    positions[:, at] = positions[:, at - 1] + 1
  np.testing.assert_array_equal(tokens[:, S:], expected)


def test_an_export_loads_there(family, tmp_path):
  network, ours, _ = family
  folder = models.export(tmp_path / "made", ours, shard_bytes=4_000)
  assert (folder / "model.safetensors.index.json").is_file()
  again, said = transformers.AutoModelForCausalLM.from_pretrained(
    folder, output_loading_info=True, attn_implementation="eager"
  )
  assert not said["missing_keys"] and not said["unexpected_keys"]
  if getattr(network.config, "sliding_window", 0) is not None:
    # Without a window a Mistral is a Llama.
    assert type(again) is type(network)
  tokens, mask, positions = padded("right")
  expected = theirs(network, tokens, mask, positions)
  np.testing.assert_array_equal(
    theirs(again.eval(), tokens, mask, positions), expected
  )
  # And here: the same configuration, the same bits.
  back = models.load(folder)
  assert back.config == ours.config
  jax.tree.map(np.testing.assert_array_equal, back.params, ours.params)


def test_routers_choose_the_same(family):
  network, ours, _ = family
  if ours.config.experts is None:
    with pytest.raises(ValueError, match="no router"):
      models.routes(ours.config)
    return
  tokens, mask, positions = padded("left")
  found = models.routes(ours.config)(ours.params, tokens, positions)
  with torch.no_grad():
    out = network(
      input_ids=torch.tensor(tokens, dtype=torch.long),
      attention_mask=torch.tensor(mask, dtype=torch.long),
      position_ids=torch.tensor(np.where(mask, positions, 1)).long(),
      output_router_logits=True,
    )
  expected = [layer.numpy().reshape(*tokens.shape, -1) for layer in out[-1]]
  expected = np.stack(expected, axis=2)
  close(found.logits, expected, mask)
  best = np.argsort(-expected, axis=-1)[..., :2]
  np.testing.assert_array_equal(np.asarray(found.experts)[mask], best[mask])
  total = np.asarray(found.weights)[mask].sum(-1)
  assert np.all(np.abs(total - 1) < 1e-6) == ours.config.experts.normalised


def test_rows_beyond_the_trained_context():
  """The base of "dynamic" rises with a row's length."""
  made = transformers.LlamaConfig(
    **(SIZES | {"max_position_embeddings": 5}),
    rope_parameters=rope("dynamic", 2.0),
  )
  network = network_of(made)
  config = models.families.from_hf(json.loads(made.to_json_string()))
  assert config.rope_scaling == models.RopeScaling("dynamic", 2.0, context=5)
  state = {k: v.numpy() for k, v in network.state_dict().items()}
  params = models.policy(config).init(jax.random.key(0))
  for tensor in models.families.tensors(config):
    names = [tensor.hf.format(layer=i) for i in range(config.layers)]
    found = [state[n].T if tensor.transposed else state[n] for n in names]
    branch = params
    for key in tensor.path[:-1]:
      branch = branch[key]
    branch[tensor.path[-1]] = np.stack(found) if tensor.stacked else found[0]
  mask = np.ones((1, S), bool)
  positions = np.arange(S, dtype=np.int32)[None, :]
  tokens = TOKENS[:1].astype(np.int32)
  found = forward_of(config)(params, tokens, positions)
  close(found, theirs(network, tokens, mask, positions), mask)
  fixed = forward_of(dataclasses.replace(config, rope_scaling=None))
  assert np.abs(found - fixed(params, tokens, positions)).max() > 1e-3


def test_smollm2_equals_their_reading_of_the_same_file(tmp_path):
  path = smollm2.fetch()
  network = transformers.AutoModelForCausalLM.from_pretrained(
    path.parent, gguf_file=path.name, dtype=torch.float32
  ).eval()
  ours = models.load("smollm2-135m-instruct", dtype="float32")
  ids = ours.tokenizer.encode("The capital of France is Paris. 12 + 30 = 42.")
  tokens = np.array([ids], np.int32)
  positions = np.arange(len(ids), dtype=np.int32)[None, :]
  mask = np.ones_like(tokens, bool)
  expected = theirs(network, tokens, mask, positions)
  found = forward_of(ours.config)(ours.params, tokens, positions)
  close(found, expected, mask)
  np.testing.assert_array_equal(jnp.argmax(found, -1), np.argmax(expected, -1))
  # The export is a model with its tokenizer, there as well.
  folder = models.export(tmp_path / "made", ours, dtype="bfloat16")
  tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
  chat = [{"role": "user", "content": "What is 17 + 25?"}]
  said = tokenizer.apply_chat_template(
    chat, add_generation_prompt=True, return_dict=False
  )
  assert said == ours.tokenizer.chat(chat)
  assert tokenizer.eos_token_id == ours.tokenizer.stops[0]
  assert models.load(folder).tokenizer.chat(chat) == said
