"""TRL and Transformers on the CPU: generate, GRPO's update, its trainer.

The kinds of job are those of the other workers: "rollout", "update", "step".
"""

import importlib.metadata
import math
import os
import tempfile

os.environ |= {
  "CUDA_VISIBLE_DEVICES": "",
  "HF_HUB_OFFLINE": "1",
  "TOKENIZERS_PARALLELISM": "false",
  "TRANSFORMERS_OFFLINE": "1",
  "WANDB_DISABLED": "true",
}

import datasets  # noqa: E402
import numpy as np  # noqa: E402
import protocol  # noqa: E402  (stands beside this file)
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402

GROUP = 8
PAD, EOS = 0, 2


def network(model):
  """Qwen3 with drawn weights, float32."""
  torch.manual_seed(0)
  config = transformers.Qwen3Config(
    vocab_size=model["vocab"],
    hidden_size=model["embed"],
    intermediate_size=model["ffn"],
    num_hidden_layers=model["layers"],
    num_attention_heads=model["heads"],
    num_key_value_heads=model["kv_heads"],
    head_dim=model["embed"] // model["heads"],
    rms_norm_eps=1e-6,
    rope_theta=1_000_000,
    max_position_embeddings=4096,
    tie_word_embeddings=False,
    attention_dropout=0.0,
    pad_token_id=PAD,
    bos_token_id=None,
    eos_token_id=EOS,
    attn_implementation="sdpa",
  )
  return transformers.Qwen3ForCausalLM(config).float()


def useful(tokens, stops):
  """Tokens of rows up to their first stop token."""
  hit = torch.isin(tokens, torch.tensor(stops, dtype=tokens.dtype))
  whole = torch.tensor(tokens.shape[1])
  first = hit.int().argmax(dim=1) + 1
  return int(torch.where(hit.any(dim=1), first, whole).sum())


def rollout(job, clock):
  """`generate` of Transformers, in batches."""
  model = network(job["model"]).eval()
  prompts = np.load(job["arrays"])["prompts"]
  rows = torch.tensor(np.repeat(prompts, GROUP, axis=0), dtype=torch.long)
  # Rows of full length still have an end to be forbidden.
  least = {} if job["stops"] else {"min_new_tokens": job["new"]}

  @torch.inference_mode()
  def generate(rows, size):
    out = []
    for some in rows.split(size):
      tokens = model.generate(
        input_ids=some,
        attention_mask=torch.ones_like(some),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=job["new"],
        pad_token_id=PAD,
        eos_token_id=job["stops"] or EOS,
        use_cache=True,
        **least,
      )
      out.append(tokens[:, rows.shape[1] :])
    return out

  sizes = [size for size in job["batches"] if size <= len(rows)]
  some = rows[: max(sizes)]
  size = protocol.fastest(sizes, lambda size: generate(some, size))
  while clock.begin():
    out = generate(rows, size)
    clock.end(lambda out=out: sum(useful(x, job["stops"]) for x in out))


def parity(completion_ids, lengths=None, **columns):
  """1 where the sum of the tokens is odd; notes their lengths."""
  del columns
  if lengths is not None:
    lengths[:] = [len(ids) for ids in completion_ids]
  return [float(sum(ids) % 2) for ids in completion_ids]


def trainer(job, prompts, reward, callbacks=()):
  """GRPO without a KL term, one update a step."""
  vocab = job["model"]["vocab"]
  words = {f"t{i}": i for i in range(vocab)} | {"<pad>": PAD, "<eos>": EOS}
  del words[f"t{PAD}"], words[f"t{EOS}"]
  inner = tokenizers.Tokenizer(
    tokenizers.models.WordLevel(words, unk_token="<pad>")
  )
  inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
  tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=inner,
    pad_token="<pad>",
    eos_token="<eos>",
    padding_side="left",
  )
  model = network(job["model"])
  stops = job.get("stops")
  if stops:
    model.generation_config.eos_token_id = stops
  rows = job["rows"]
  texts = [" ".join(f"t{i}" for i in row) for row in prompts]
  return trl.GRPOTrainer(
    model=model,
    reward_funcs=reward,
    args=trl.GRPOConfig(
      output_dir=tempfile.mkdtemp(),
      per_device_train_batch_size=rows,
      num_generations=GROUP,
      max_completion_length=job["new"],
      beta=0.0,
      epsilon=0.2,
      learning_rate=job["rate"],
      max_steps=10**6,
      gradient_accumulation_steps=1,
      num_iterations=1,
      temperature=1.0,
      top_k=0,
      use_cpu=True,
      bf16=False,
      fp16=False,
      report_to=[],
      logging_steps=10**6,
      save_strategy="no",
      loss_type="grpo",
      gradient_checkpointing=False,
      disable_tqdm=True,
      generation_kwargs={} if stops else {"min_new_tokens": job["new"]},
      max_grad_norm=1.0,
    ),
    train_dataset=datasets.Dataset.from_dict({"prompt": texts}),
    processing_class=tokenizer,
    callbacks=list(callbacks),
  )


def update(job, clock):
  """The trainer's loss, backward, clip and AdamW on given rows."""
  arrays = np.load(job["arrays"])
  length = arrays["length"]
  # As wide as the longest row, which is how the trainer pads its own.
  tokens = arrays["tokens"][:, : length.max()]
  mask = np.arange(tokens.shape[1])[None] < length[:, None]
  prompts = np.repeat(arrays["prompts"], GROUP, axis=0)
  made = trainer(job, arrays["prompts"], parity)
  model = made.model.train()

  def long(x):
    return torch.tensor(x, dtype=torch.long)

  rows = {
    "prompt_ids": long(prompts),
    "prompt_mask": torch.ones(prompts.shape, dtype=torch.long),
    "completion_ids": long(np.where(mask, tokens, PAD)),
    "completion_mask": long(mask),
    "advantages": torch.tensor(arrays["adv"]),
    "num_items_in_batch": torch.tensor(int(length.sum())),
    "old_per_token_logps": torch.full(
      tokens.shape, -math.log(job["model"]["vocab"])
    ),
  }
  made.current_gradient_accumulation_steps = 1
  made.create_optimizer()
  while clock.begin():
    made._compute_loss(model, dict(rows)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    made.optimizer.step()
    made.optimizer.zero_grad(set_to_none=True)
    clock.end(lambda: length.sum() + prompts.size)


def step(job, clock):
  """The trainer's own loop; it waits for the word before every step."""
  lengths = []

  class Turns(transformers.TrainerCallback):
    """Begins and ends the clock with the trainer's steps."""

    def on_step_begin(self, *arguments, **options):
      if not clock.begin():
        raise protocol.Ended

    def on_step_end(self, *arguments, **options):
      clock.end(lambda: sum(lengths))

  def reward(completion_ids, **columns):
    return parity(completion_ids, lengths)

  prompts = np.load(job["arrays"])["prompts"]
  trainer(job, prompts, reward, [Turns()]).train()


if __name__ == "__main__":
  names = ("trl", "transformers", "torch")
  protocol.serve(
    {"rollout": rollout, "update": update, "step": step},
    {name: importlib.metadata.version(name) for name in names},
  )
