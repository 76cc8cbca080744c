"""A step with a verifier on the host and a restore, as one of two processes.

Run by tests/test_processes.py: python -m tests.process_worker OUT PORT ID
Reads OUT/checkpoints, writes OUT/ID.json and step 3 of the checkpoints.
"""

import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from jaxroll import (
  checkpoint,
  environments,
  evaluate,
  models,
  parallel,
  recipes,
  rollout,
  train,
  types,
)

ROWS = 15  # no multiple of two processes


def step_of_a_host_task() -> dict:
  """What a step and an evaluation give, and which rows were scored here."""
  scored = []

  def scorer(prompt, completion, answer):
    scored.append(completion)
    return len(set(completion)) / 4

  task = environments.host_task(
    "variety",
    [(text, 0) for text in ("1+", "2+", "3+", "4+", "5+", "6+")],
    scorer,
    response_length=4,
    eval_fraction=0.5,
  )
  sizes = types.Sizes(
    num_ids=6, prompts=3, rows=ROWS, prompt_length=3, response_length=4
  )
  lm = models.policy(
    models.Config(
      vocab_size=task.vocab_size,
      embed=8,
      layers=1,
      heads=1,
      kv_heads=1,
      head_dim=8,
      ffn=8,
      tied_embedding=True,
    )
  )
  rules = recipes.uniform(sizes)
  optimiser = train.adamw(1e-2)
  mesh = parallel.make_mesh(data=-1)
  state = jax.jit(
    lambda key: train.init_state(rules, lm, optimiser, sizes, key)
  )(jax.random.key(0))
  state = parallel.place(state, mesh)
  step = train.make_step(
    rules, task, lm, optimiser, sizes, slots=8, micro_rows=16, mesh=mesh
  )
  settings = train.Settings(
    rollout.sampler(1.0), rollout.stops(task.stop_tokens), jnp.int32(4)
  )
  state, output = train.hosted(step, task)(state, task.data, settings)
  here, scored[:] = list(scored), []
  rewards, tokens = parallel.to_host(
    (output.outcome.reward, output.rollouts.tokens)
  )
  sample = evaluate.held_out(
    lm, task, task.eval_pool, k=3, slots=8, max_length=4, mesh=mesh
  )
  samples = sample(
    state.learners["policy"].params,
    task.data,
    settings.sampler,
    settings.stops,
    jax.random.key(1),
  )
  params = parallel.to_host(state.learners["policy"].params)
  return {
    "scored": len(here),
    "scored_in_evaluation": len(scored),
    "reward": rewards.tolist(),
    "tokens": tokens.tolist(),
    "correct": samples.correct.tolist(),
    "loss": float(output.metrics["loss"]),
    "grad_norm": float(output.metrics["grad_norm"]),
    "params": np.concatenate(
      [x.ravel() for x in jax.tree.leaves(params)]
    ).tolist(),
  }


def state_of(seed: int, mesh) -> dict:
  """A state that lies over the mesh in two ways, with a key."""
  key = jax.random.key(seed)
  state = {"x": jax.random.normal(key, (8, 6)), "key": key}
  rules = ((r"x$", jax.sharding.PartitionSpec("data", "fsdp")),)
  return parallel.place(state, mesh, rules)


def restore_and_go_on(directory, this: int) -> dict:
  """Falls over step 2, which process 1 cannot read, and saves step 3."""
  mesh = parallel.make_mesh(data=4, fsdp=2)
  if this == 1:
    read = ocp.CheckpointManager.restore

    def unreadable(self, step, **options):
      if step == 2:
        raise OSError("this disk is broken")
      return read(self, step, **options)

    ocp.CheckpointManager.restore = unreadable
  with checkpoint.Checkpoints(directory) as checkpoints:
    state, metadata, step = checkpoints.restore(state_of(0, mesh))
    checkpoints.save(3, state, metadata)
  return {
    "step": step,
    "metadata": metadata,
    "sharded": str(state["x"].sharding.spec),
  }


if __name__ == "__main__":
  folder, port, this = sys.argv[1:]
  parallel.virtual_devices()
  parallel.start_processes(
    f"127.0.0.1:{port}", 2, int(this), heartbeat_timeout=20
  )
  restored = restore_and_go_on(f"{folder}/checkpoints", int(this))
  found = step_of_a_host_task() | {"restored": restored}
  pathlib.Path(folder, f"{this}.json").write_text(json.dumps(found))
