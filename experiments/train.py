"""Trains a policy with adaptive rollouts; the whole loop is visible here.

  python -m experiments.train --workdir=runs/quickstart
  python -m experiments.train --workdir=runs/vade --config.recipe=vade

The workdir gets metrics.jsonl (a record a step), summary.json, report.html,
plots/, transcripts.jsonl, allocation.npz and checkpoints/. A run that was
killed goes on with --resume, bitwise as if it had not been.
"""

import pathlib
import time

import jax
from absl import app, flags, logging
from ml_collections import config_flags

from experiments import artifacts, build
from jaxroll import checkpoint, metrics, parallel, recipe, report, train

_HERE = pathlib.Path(__file__).parent
_CONFIG = config_flags.DEFINE_config_file(
  "config", str(_HERE / "configs" / "quickstart.py"), "What to run."
)
_WORKDIR = flags.DEFINE_string(
  "workdir", "runs/quickstart", "Where everything of the run goes."
)
_RESUME = flags.DEFINE_bool(
  "resume", False, "Go on with the run that the workdir holds, if any."
)

# Fields that may differ on resume: none changes what a step computes.
_FREE = ("steps", "checkpoint_every", "checkpoints_kept", "tensorboard")
_EVALUATE = 2**31 - 3  # what its random numbers are for


def run(config, workdir: str, *, resume: bool = False) -> dict:
  """Trains by the config and returns the summary."""
  began = time.time()
  # Everything that can be refused is refused before anything is written.
  build.check(config)
  task = build.task(config.task)
  lm = build.policy(config.model, task.vocab_size)
  sizes = build.sizes(config, task)
  rules = build.rules(config, sizes)
  settings = build.settings(config, task)
  mesh = build.mesh(config.mesh)
  optimiser = train.adamw(
    config.learning_rate,
    warmup_steps=config.warmup_steps,
    clip_norm=config.clip_norm,
  )
  step_functions = train.make_step(
    rules,
    task,
    lm,
    optimiser,
    sizes,
    slots=config.slots,
    micro_rows=config.micro_rows,
    mesh=mesh,
  )
  evaluate = build.evaluation(config, task, lm, mesh)

  workdir = checkpoint.prepare_workdir(workdir, resume=resume)
  jax.config.update("jax_compilation_cache_dir", str(workdir / "jax_cache"))
  compiles = metrics.CompileCounter()
  logging.info("%s", recipe.describe(rules))

  state = train.init_state(
    rules, lm, optimiser, sizes, jax.random.key(config.seed)
  )
  if mesh is not None:
    state = jax.device_put(state, parallel.shardings(state, mesh))
  checkpoints = checkpoint.Checkpoints(
    workdir / "checkpoints",
    keep=config.checkpoints_kept,
    every=config.checkpoint_every,
  )
  writer = metrics.MetricsWriter(workdir, tensorboard=config.tensorboard)
  record = artifacts.Record(workdir, task)
  about = {
    "config": config.to_dict(),
    "environment": checkpoint.environment(),
  }

  def evaluated(state):
    return evaluate(
      state.learners["policy"].params,
      task.data,
      settings,
      jax.random.fold_in(jax.random.key(config.seed), _EVALUATE),
    )

  restored = checkpoints.restore(state)
  if restored is not None:
    checkpoint.check_config(
      restored.metadata["config"], about["config"], free=_FREE
    )
    checkpoint.warn_environment(restored.metadata["environment"])
    state = restored.state
    writer.truncate(restored.step)
    record.truncate(restored.step)
  else:
    writer.truncate(-1)
    record.truncate(-1)
    state = build.warm_start(config, task, lm, state, rules)
    results, samples = evaluated(state)
    writer.write(0, results)
    record.transcripts(0, samples)
    checkpoints.save(0, state, about)

  step = train.fused if task.jittable else train.hosted
  step = step(step_functions, task)
  if task.jittable:
    step = jax.jit(step, donate_argnums=0)
  progress = metrics.Progress(config.steps)
  started = int(state.step)
  recompiled = 0
  for number in range(started + 1, config.steps + 1):
    tick, mark = time.time(), compiles.count
    state, output = step(state, task.data, settings)
    values = jax.device_get(output.metrics)
    seconds = time.time() - tick
    values["tokens_per_second"] = values["generated_tokens"] / seconds
    values["seconds"] = seconds
    values["compiles"] = compiles.since(mark)
    recompiled += values["compiles"] if number > started + 1 else 0
    record.allocation(number, output)
    if number % config.eval_every == 0 or number == config.steps:
      results, samples = evaluated(state)
      values |= results
      record.transcripts(number, samples)
    writer.write(number, values)
    _warn(values, number)
    progress.update(number, _shown(values))
    last = number == config.steps
    if last or number % config.checkpoint_every == 0:
      record.save()
    checkpoints.save(number, state, about, force=last)
  progress.close()
  checkpoints.close()
  writer.close()
  compiles.close()

  summary = artifacts.summarise(metrics.read_metrics(workdir)) | {
    "compiles_after_first_step": recompiled,
    "wall_seconds": time.time() - began,
    "resumed_from": started if restored is not None else None,
    "recipe": rules.name,
    "seed": config.seed,
    "config": config.to_dict(),
  }
  metrics.write_summary(workdir, summary)
  logging.info("report: %s", report.write_report(workdir))
  return summary


def _shown(values):
  names = ("reward", "zero_variance_share", "tokens_per_second")
  return {name: float(values[name]) for name in names}


def _warn(values, number):
  if values["skipped_nonfinite"]:
    logging.warning(
      "step %d: %d optimiser steps were skipped for a non-finite gradient so "
      "far: lower learning_rate if this goes on",
      number,
      values["skipped_nonfinite"],
    )
  if values["truncated_share"] == 1 and values["rollouts"]:
    logging.warning(
      "step %d: every rollout was cut off at its limit: raise the task's "
      "response_length or warm up longer",
      number,
    )


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f"unknown arguments: {argv[1:]}")
  run(_CONFIG.value, _WORKDIR.value, resume=_RESUME.value)


if __name__ == "__main__":
  app.run(main)
