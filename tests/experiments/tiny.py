"""A run of seconds, as a config file and as a process of its own."""

import os
import pathlib
import subprocess
import sys

import jax

from experiments.configs import quickstart
from jaxroll import metrics

ROOT = pathlib.Path(__file__).parent.parent.parent

# Fields of a record that measure the process, not the run.
TIMING = ("seconds", "tokens_per_second", "compiles", "process_step")
TIMING += ("wall_seconds",)
# Every field that decides a number: tuning the quickstart changes no test.
FIELDS = {
  "seed": 0,
  "recipe": "pilot_commit",
  "select": "select.vade",
  "advantage": "",
  "trust": "",
  "objective": "",
  "aggregate": "",
  "kl_coefficient": 0.0,
  "epochs": 1,
  "minibatches": 1,
  "task.name": "arithmetic",
  "task.grades": ("+:1:2",),
  "task.per_grade": 32,
  "task.eval_per_grade": 16,
  "model.embed": 32,
  "model.layers": 1,
  "model.heads": 2,
  "model.kv_heads": 2,
  "model.head_dim": 16,
  "model.ffn": 64,
  "model.tied_embedding": True,
  # So that a policy of this size solves some of its prompts sometimes.
  "warm_start.steps": 150,
  "warm_start.rows": 32,
  "warm_start.learning_rate": 5e-3,
  "warm_start.wrong": 0.4,
  "steps": 10,
  "prompts": 4,
  "rollouts": 32,
  "slots": 8,
  "micro_rows": 16,
  "temperature": 1.0,
  "top_k": 0,
  "top_p": 1.0,
  "noise": "gumbel",
  "learning_rate": 1e-3,
  "warmup_steps": 2,
  "decay_steps": 0,
  "final_scale": 1.0,
  "clip_norm": 1.0,
  "eval_every": 2,
  "eval_prompts": 8,
  "eval_k": 2,
  "checkpoint_every": 2,
  "checkpoints_kept": 3,
  "tensorboard": False,
  "mesh.data": -1,
  "mesh.fsdp": 1,
  "mesh.tensor": 1,
}


def get_config(**changes):
  """The config; a double underscore in a name is a dot."""
  config = quickstart.get_config()
  changes = {name.replace("__", "."): x for name, x in changes.items()}
  for name, value in (FIELDS | changes).items():
    *sections, field = name.split(".")
    section = config
    for place in sections:
      section = section[place]
    section[field] = value
  return config


def launch(
  workdir, *flags, module="experiments.train", file=__file__, devices=1
) -> subprocess.CompletedProcess:
  """Runs the binary in a fresh process, with the compile cache of the tests."""
  environment = os.environ | {
    "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir,
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.5",
  }
  environment.pop("NPROC", None)  # the binary itself sees to its threads
  command = [sys.executable, "-m", module, f"--workdir={workdir}"]
  command += [f"--config={file}"] * (file is not None) + list(flags)
  return subprocess.run(
    command, cwd=ROOT, env=environment, capture_output=True, text=True
  )


def finished(workdir, *flags, **options) -> subprocess.CompletedProcess:
  """The same, of a run that must end well."""
  process = launch(workdir, *flags, **options)
  assert process.returncode == 0, process.stderr
  return process


def untimed(workdir) -> list[dict]:
  """A run's records without what measures the process."""
  return [
    {name: x for name, x in record.items() if name not in TIMING}
    for record in metrics.read_metrics(workdir)
  ]
