"""google-tunix on the CPU: its sampler, its GRPO update, its GRPO learner.

Every framework's worker knows three kinds of job: "rollout", "update", "step".
A job has `model` and `new` and a file of arrays.
"""

import importlib.metadata
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("WANDB_MODE", "disabled")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
import protocol  # noqa: E402  (stands beside this file)
from flax import nnx  # noqa: E402
from tunix.generate import sampler as sampling  # noqa: E402
from tunix.models.qwen3 import model as qwen3  # noqa: E402
from tunix.rl import rl_cluster  # noqa: E402
from tunix.rl.grpo import grpo_learner  # noqa: E402
from tunix.rl.rollout import base_rollout  # noqa: E402

GROUP = 8
PAD = 0


class Numbers:
  """A tokenizer whose text is the ids: the sampler takes strings alone."""

  def __init__(self, vocab):
    self._vocab = vocab

  def encode(self, text, **options):
    """Text -> ids."""
    del options
    return [int(word) for word in str(text).split()]

  def decode(self, ids, **options):
    """Ids -> text."""
    del options
    return " ".join(str(int(i)) for i in ids)

  def bos_id(self):
    """None is put in front where this is 0."""
    return 0

  def eos_id(self):
    """An id that is never sampled; stop tokens are given by the job."""
    return self._vocab + 7

  def pad_id(self):
    """What fills a row."""
    return PAD


def network(model):
  """Qwen3 with drawn weights."""
  config = qwen3.ModelConfig(
    num_layers=model["layers"],
    vocab_size=model["vocab"],
    embed_dim=model["embed"],
    hidden_dim=model["ffn"],
    num_heads=model["heads"],
    head_dim=model["embed"] // model["heads"],
    num_kv_heads=model["kv_heads"],
    rope_theta=1_000_000,
    norm_eps=1e-6,
  )
  return qwen3.Qwen3(config, rngs=nnx.Rngs(0))


def texts(prompts, tokenizer):
  """Each prompt as text."""
  return [tokenizer.decode(row) for row in prompts]


def rollout(job, clock):
  """The sampler alone, in batches; stop ids are fixed once a sampler."""
  model, new = job["model"], job["new"]
  prompts = np.load(job["arrays"])["prompts"]
  tokenizer = Numbers(model["vocab"])
  sample = sampling.Sampler(
    network(model),
    tokenizer,
    sampling.CacheConfig(
      cache_size=prompts.shape[1] + new,
      num_layers=model["layers"],
      num_kv_heads=model["kv_heads"],
      head_dim=model["embed"] // model["heads"],
    ),
  )
  rows = [text for text in texts(prompts, tokenizer) for _ in range(GROUP)]
  seeds = iter(range(2**31))

  def generate(rows, size):
    out = []
    for first in range(0, len(rows), size):
      out += sample(
        rows[first : first + size],
        max_generation_steps=new,
        max_prompt_length=prompts.shape[1],
        temperature=1.0,
        top_p=1.0,
        top_k=None,
        seed=next(seeds),
        return_logprobs=True,
        eos_tokens=job["stops"] or None,
      ).tokens
    return out

  sizes = [size for size in job["batches"] if size <= len(rows)]
  some = rows[: max(sizes)]
  size = protocol.fastest(sizes, lambda size: generate(some, size))
  while clock.begin():
    out = generate(rows, size)
    clock.end(lambda out=out: written(out, new))


def written(rows, new):
  """Tokens of rows; the sampler leaves the stop token out."""
  return sum(len(row) + (len(row) < new) for row in rows)


def cluster(job, length, steps):
  """Trainer and sampler of one model; no reference, no copy of the weights."""
  mesh = jax.make_mesh(
    (1, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2
  )
  role = rl_cluster.Role
  made = rl_cluster.RLCluster(
    actor=network(job["model"]),
    reference=None,
    tokenizer=Numbers(job["model"]["vocab"]),
    cluster_config=rl_cluster.ClusterConfig(
      role_to_mesh=dict.fromkeys(
        (role.ACTOR, role.REFERENCE, role.ROLLOUT), mesh
      ),
      rollout_engine="vanilla",
      offload_to_cpu=False,
      training_config=rl_cluster.RLTrainingConfig(
        actor_optimizer=optax.chain(
          optax.clip_by_global_norm(1.0), optax.adamw(job["rate"])
        ),
        eval_every_n_steps=10**9,
        max_steps=steps,
      ),
      rollout_config=base_rollout.RolloutConfig(
        max_tokens_to_generate=job["new"],
        max_prompt_length=length,
        kv_cache_size=length + job["new"],
        temperature=1.0,
        top_p=1.0,
        return_logprobs=True,
        eos_tokens=job.get("stops") or None,
      ),
    ),
  )
  return made, mesh


def learner(made, rewards):
  """GRPO without a KL term, one update a step."""
  config = grpo_learner.GRPOConfig(
    num_generations=GROUP, num_iterations=1, beta=0.0, epsilon=0.2
  )
  return grpo_learner.GRPOLearner(
    rl_cluster=made, algo_config=config, reward_fns=rewards
  )


def parity(prompts, completions, **columns):
  """1 where the sum of the tokens is odd."""
  del prompts, columns
  return [float(sum(map(int, text.split())) % 2) for text in completions]


def update(job, clock):
  """The trainer's own step on given rows."""
  arrays = np.load(job["arrays"])
  prompts = np.repeat(arrays["prompts"], GROUP, axis=0)
  tokens, length = arrays["tokens"], arrays["length"]
  mask = np.arange(tokens.shape[1])[None] < length[:, None]
  made, mesh = cluster(job, prompts.shape[1], 10**9)
  with mesh:
    learner(made, parity)  # gives the trainer its loss
    rows = grpo_learner.TrainExample(
      prompt_ids=jnp.asarray(prompts),
      prompt_mask=jnp.ones(prompts.shape, bool),
      completion_ids=jnp.asarray(np.where(mask, tokens, PAD)),
      completion_mask=jnp.asarray(mask.astype(np.int32)),
      advantages=jnp.asarray(arrays["adv"]),
      ref_per_token_logps=None,
      old_per_token_logps=jnp.full(
        tokens.shape, -np.log(job["model"]["vocab"]), jnp.float32
      ),
    )
    step, _ = made.actor_trainer.jit_train_and_eval_step()
    while clock.begin():
      jax.block_until_ready(step(rows))
      clock.end(lambda: length.sum() + prompts.size)


def step(job, clock):
  """The learner's own loop; it asks for prompts when a step begins."""
  prompts = np.load(job["arrays"])["prompts"]
  num = job["rows"] // GROUP
  tokenizer = Numbers(job["model"]["vocab"])
  made, mesh = cluster(job, prompts.shape[1], 10**6)
  generate, learn, out = made.generate, made.update_actor, []

  def keep(*arguments, **options):
    out[:] = [generate(*arguments, **options)]
    return out[0]

  def timed(*arguments, **options):
    learn(*arguments, **options)
    weights = nnx.state(made.actor_trainer.model)
    jax.block_until_ready(jax.tree.leaves(weights))
    clock.end(lambda: written(out[0].tokens, job["new"]))

  made.generate, made.update_actor = keep, timed

  class Prompts:
    """Batches of prompts, as many as the client wants."""

    def __iter__(self):
      first = 0
      while clock.begin():
        chosen = np.arange(first, first + num) % len(prompts)
        first += num
        yield {
          "prompts": np.array(texts(prompts[chosen], tokenizer)),
          "answer": np.array(["-"] * num),
        }
      raise protocol.Ended

    def __len__(self):
      return 10**6

  with mesh:
    learner(made, parity).train(Prompts())


if __name__ == "__main__":
  names = ("google-tunix", "jax", "flax", "optax")
  protocol.serve(
    {"rollout": rollout, "update": update, "step": step},
    {name: importlib.metadata.version(name) for name in names},
  )
