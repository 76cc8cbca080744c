"""Trains a policy with adaptive rollouts; the whole loop is visible here.

  python -m experiments.train --workdir=runs/quickstart
  python -m experiments.train --workdir=runs/vade --config.recipe=vade

The workdir gets metrics.jsonl (a record a step), summary.json, report.html,
plots/, transcripts.jsonl, allocation.npz and checkpoints/. A run that was
killed goes on with --resume, bitwise as if it had not been. On many hosts the
same command runs on each, see docs/running.md.
"""

import functools
import pathlib
import time

import jax
from absl import flags

from experiments import adapters, artifacts, build, cli, forms
from experiments.watch import EVALUATED, Watch
from jaxroll import checkpoint, metrics, parallel, recipe, train

_HERE = pathlib.Path(__file__).parent
_CONFIG = cli.config_flag(str(_HERE / "configs" / "quickstart.py"))
_WORKDIR = flags.DEFINE_string(
  "workdir", "runs/quickstart", "Where everything of the run goes."
)
_PROFILE = flags.DEFINE_string(
  "profile", None, "Folder for a trace of the third step, or none."
)
_RESUME = flags.DEFINE_bool(
  "resume", False, "Go on with the run that the workdir holds, if any."
)

cli.define_processes()

# Fields that may differ on resume: none changes what a step computes, the mesh
# only how it is rounded.
_FREE = ("steps", "checkpoint_every", "checkpoints_kept", "tensorboard", "mesh")
_EVALUATE = 2**31 - 3  # what its random numbers are for
_SHOWN = ("reward", "zero_variance_share", "tokens_per_second")


def run(config, workdir, *, resume=False, profile=None) -> dict:
  """Trains by the config.

  Args:
    config: the fields of configs/quickstart.py.
    workdir: where everything of the run goes; empty unless `resume`.
    resume: go on with the run that it holds, if any.
    profile: folder for a trace of the process's third step, or None.

  Returns:
    What summary.json holds.

  Raises:
    cli.Refused: before anything is written, where the config cannot run or
      is not the one that the workdir's run was started with.
  """
  began = time.monotonic()
  with cli.refusals():
    parallel.check_same("the config", repr(config.to_dict()))
    build.check(config)
    mesh = build.mesh(config.mesh)
    adapted = adapters.rank(config) > 0
    pretrained = build.pretrained(config.model, mesh, adapters.dtype(config))
    task = build.task(config.task, pretrained)
    whole = build.policy(config.model, task.vocab_size, pretrained)
    lm = adapters.policy(config, whole)
    sizes = build.sizes(config, task)
    rules = build.rules(config, sizes)
    settings = build.settings(config, task)
    optimiser = build.optimiser(config)
    make_step = functools.partial(
      train.make_step,
      rules,
      task,
      optimiser=optimiser,
      sizes=sizes,
      slots=config.slots,
      micro_rows=config.micro_rows,
    )
    form = forms.form(config, task, make_step, whole, rules, mesh)
    warm_start = build.warm_start(config, task, whole, rules)
    evaluate = build.evaluation(config, task, lm, mesh)
    workdir = checkpoint.prepare_workdir(workdir, resume=resume)

  if not jax.config.jax_compilation_cache_dir:
    jax.config.update("jax_compilation_cache_dir", str(workdir / "jax_cache"))
  progress = metrics.Progress(config.steps)
  progress.note(recipe.describe(rules))
  compiles = metrics.CompileCounter()
  key = jax.random.key(config.seed)
  state = build.first_state(
    rules, lm, optimiser, sizes, key, pretrained, adapted=adapted
  )
  state = parallel.place(state, mesh)
  about = {"config": config.to_dict()} | adapters.about(state)
  about["environment"] = checkpoint.environment(mesh)
  checkpoints = checkpoint.Checkpoints(
    workdir / "checkpoints", keep=config.checkpoints_kept
  )
  with cli.refusals():
    restored = checkpoints.restore(
      form.kept(form.template(state, task.data)),
      accept=functools.partial(_accept, about),
    )
    if restored is None:
      artifacts.check_never_trained(workdir)
  writer = metrics.MetricsWriter(workdir, tensorboard=config.tensorboard)
  record = artifacts.Record(workdir, task)
  # What a killed run wrote after its last checkpoint is written again.
  started = -1 if restored is None else restored.step
  writer.truncate(started)
  record.truncate(started)

  def evaluated(number, state):
    values, samples = evaluate(
      adapters.params(state),
      task.data,
      settings,
      jax.random.fold_in(key, _EVALUATE),
    )
    record.transcripts(number, samples)
    progress.note(EVALUATED.format(number, **values))
    return values

  if restored is None:
    state, loss = warm_start(state)
    state = parallel.place(state, mesh)
    if loss is not None:
      progress.note(f"warm start: loss {loss[0]:.3f} -> {loss[-1]:.3f}")
    values = evaluated(0, state)
    writer.write(0, values | {"wall_seconds": time.monotonic() - began})
    carried = form.start(state, task.data, settings)
    checkpoints.save(0, form.kept(carried), about)
    checkpoints.wait()  # from here on records without a checkpoint are a loss
    started, skipped = 0, 0
  else:
    checkpoint.warn_environment(restored.metadata["environment"], mesh)
    carried = form.with_base(restored.state, state.frozen.get("base"))
    values = metrics.read_metrics(workdir)[-1]
    began -= values["wall_seconds"]
    skipped = values.get("skipped_nonfinite", 0)

  watch, third = Watch(skipped), min(started + 3, config.steps)
  for number in range(started + 1, config.steps + 1):
    tick, mark = time.monotonic(), compiles.count
    with metrics.trace(profile if number == third else None):
      carried, output = form.step(carried, task.data, settings)
      values = jax.device_get(output.metrics)
      seconds = time.monotonic() - tick
    values |= {
      "seconds": seconds,
      "tokens_per_second": values["generated_tokens"] / seconds,
      "compiles": compiles.since(mark),
      "process_step": number - started,
    }
    record.allocation(number, output)
    last = number == config.steps
    if last or number % config.eval_every == 0:
      values |= evaluated(number, form.state(carried))
    writer.write(number, values | {"wall_seconds": time.monotonic() - began})
    watch(number, values)
    progress.update(number, {name: float(values[name]) for name in _SHOWN})
    if last or number % config.checkpoint_every == 0:
      record.save()
      checkpoints.save(number, form.kept(carried), about)
  for held in (progress, checkpoints, writer, compiles):
    held.close()

  summary = artifacts.finish(
    workdir,
    {"recipe": rules.name, "seed": config.seed, "config": config.to_dict()},
  )
  progress.note(f"report: {workdir / 'report.html'}")
  return summary


def _accept(about, metadata, step):
  """Refuses to go on with another run, or with one that has gone further."""
  config = about["config"]
  checkpoint.check_config(metadata["config"], config, free=_FREE)
  adapters.check_base(metadata, about)
  if step > config["steps"]:
    raise ValueError(
      f"steps={config['steps']}, but this run has done {step}: raise steps"
    )


def main():
  run(
    _CONFIG.value, _WORKDIR.value, resume=_RESUME.value, profile=_PROFILE.value
  )


if __name__ == "__main__":
  cli.launch(main)
