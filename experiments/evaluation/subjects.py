"""Which model is evaluated, on which task? From names to functions."""

import dataclasses
import functools
import inspect
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from experiments import adapters, build, forms
from jaxroll import checkpoint, environments, models, parallel, train, types

_FOLDER = "checkpoints"


class Subject(NamedTuple):
  """A model that can be sampled from.

  Attributes:
    policy, params: what makes tokens.
    vocab_size: how many tokens it knows.
    tokenizer: of a pretrained model; None where a task's own is used.
    task: what it was trained on, or None.
    about: for summary.json: where it comes from.
    whole: () -> models.Pretrained, to export: adapters are merged.
  """

  policy: types.Policy
  params: Any
  vocab_size: int
  tokenizer: Any
  task: types.Task | None
  about: dict
  whole: Callable | None = None


def mesh(sizes: Sequence[str]) -> jax.sharding.Mesh | None:
  """The mesh of three sizes, data, fsdp and tensor; None on one device.

  Raises:
    ValueError: for anything else than three integers that fit the devices.
  """
  try:
    data, fsdp, tensor = map(int, sizes)
  except ValueError as error:
    raise ValueError(
      f"mesh={','.join(sizes)}: give three integers, as -1,1,1"
    ) from error
  return build.mesh(ConfigDict({"data": data, "fsdp": fsdp, "tensor": tensor}))


def load(
  model: str,
  *,
  step: int | None = None,
  on: jax.sharding.Mesh | None = None,
) -> Subject:
  """A model by its path or name.

  Args:
    model: the workdir of a training run or its checkpoints/, or whatever
      `models.load` takes: a Hugging Face folder, a GGUF file or a name.
    step: of a training run; None takes the newest that restores.
    on: a mesh over whose devices the weights are spread, by the rule table.

  Returns:
    `Subject`.

  Raises:
    ValueError: no such model, or one that cannot be read.
  """
  folder = _checkpoints(model)
  if folder is not None:
    return _trained(folder, step, on)
  if step is not None:
    raise ValueError(
      f"step={step}, but {model} is no training run: leave --step out"
    )
  spread = on and functools.partial(parallel.shardings, mesh=on)
  try:
    found = models.load(model, shardings=spread)
  except FileNotFoundError as error:
    raise ValueError(
      f"--model={model}: {error}; give a training run's --workdir, a Hugging "
      "Face folder, a GGUF file or a model's name"
    ) from error
  except (ImportError, RuntimeError) as error:
    raise ValueError(f"--model={model}: {error}") from error
  return Subject(
    policy=models.policy(found.config),
    params=jax.tree.map(jnp.asarray, found.params),
    vocab_size=found.config.vocab_size,
    tokenizer=found.tokenizer,
    task=None,
    about={"model": model},
    whole=lambda: found,
  )


def task(name: str, arguments: str, subject: Subject) -> types.Task:
  """The task by its name, in the model's own tokens.

  Args:
    name: "" for the task that the model was trained on; otherwise a function
      of `environments`, with what follows a colon as its first argument.
    arguments: the function's keyword arguments as a JSON object, or "".
    subject: gives the tokenizer where the task wants one.

  Returns:
    `types.Task`.

  Raises:
    ValueError: no such task, bad arguments, another vocabulary.
  """
  if not name:
    if subject.task is None:
      raise ValueError("a pretrained model has no task of its own: give --task")
    if arguments:
      raise ValueError("--task_args without --task: name the task, too")
    return subject.task
  function, _, first = name.partition(":")
  if function not in environments.__all__ or function == "host_task":
    known = sorted(set(environments.__all__) - {"host_task"})
    raise ValueError(f"task={name!r}: must be one of {known}")
  function = getattr(environments, function)
  takes = inspect.signature(function)
  options = _object(arguments)
  if first:
    names = [x for x in takes.parameters if x != "tokenizer"]
    if not names or names[0] in options:
      raise ValueError(
        f"task={name!r}: leave :{first} out, it has no argument of its own or "
        "is in --task_args, too"
      )
    options[names[0]] = first
  speaks = "tokenizer" in takes.parameters
  if speaks:
    if subject.tokenizer is None:
      raise ValueError(
        f"task {name!r} is text, and the model has no tokenizer: give a "
        "pretrained model"
      )
    options["tokenizer"] = subject.tokenizer
  try:
    takes.bind(**options)
  except TypeError as error:
    raise ValueError(f"task {name!r} does not take these: {error}") from error
  try:
    made = function(**options)
  except (FileNotFoundError, ImportError) as error:
    raise ValueError(f"task {name!r}: {error}") from error
  foreign = not speaks and subject.tokenizer is not None
  if foreign or made.vocab_size > subject.vocab_size:
    raise ValueError(
      f"task {name!r} speaks {made.vocab_size} tokens of its own, the model "
      f"{subject.vocab_size} others: choose a text task for a pretrained "
      "model, and a task of the same vocabulary for a trained one"
    )
  return made


def _object(text: str) -> dict:
  """The JSON object in a flag."""
  try:
    value = json.loads(text or "{}")
  except json.JSONDecodeError as error:
    raise ValueError(f"task_args={text!r} is not JSON: {error}") from error
  if not isinstance(value, dict):
    raise ValueError(f'task_args={text!r}: give an object, {{"name": value}}')
  return value


# --- training runs


def _checkpoints(model: str) -> pathlib.Path | None:
  """The folder of a run's steps, if that is what the path names."""
  path = pathlib.Path(model)
  if (path / _FOLDER).is_dir():
    return path / _FOLDER
  return path if path.name == _FOLDER and path.is_dir() else None


class _Seen(ValueError):
  """Ends the reading of a checkpoint once its metadata are known."""


def _trained(folder: pathlib.Path, step: int | None, on) -> Subject:
  """The policy of a training run, which may still be going on."""
  steps = {path.name: path for path in folder.iterdir() if path.name.isdigit()}
  if step is not None:
    steps = {name: path for name, path in steps.items() if int(name) == step}
  if not steps:
    wanted = "steps" if step is None else f"step {step}"
    raise ValueError(f"{folder} holds no {wanted}: look into it for others")
  # Opening a run's folder tidies it up, under a run that may be writing to it:
  # what is opened here is a folder of links.
  with tempfile.TemporaryDirectory() as links:
    for name, path in steps.items():
      os.symlink(path.absolute(), pathlib.Path(links) / name)
    with checkpoint.Checkpoints(links) as found:
      config = ConfigDict(_metadata(found)["config"])
      run = _rebuilt(config, folder, on)
      restored = found.restore(run.template)
  state = restored.state
  if isinstance(state, train.Pipeline):
    state = state.state
  state = adapters.with_base(state, run.base)
  adapters.check_base(restored.metadata, adapters.about(state))
  params = adapters.params(state)

  def whole():
    merged = adapters.merged(config, params)
    if run.of is None:
      return models.Pretrained(run.network, merged)
    return dataclasses.replace(run.of, params=merged)

  return Subject(
    policy=run.policy,
    params=params,
    vocab_size=run.task.vocab_size,
    tokenizer=None if run.of is None else run.of.tokenizer,
    task=run.task,
    whole=whole,
    about={
      "model": str(folder.parent),
      "step": restored.step,
      "recipe": config.recipe,
      "seed": config.seed,
    },
  )


def _metadata(found: checkpoint.Checkpoints) -> dict:
  """What the newest readable step says of its run."""
  seen = {}

  def look(metadata, step):
    seen.update(metadata)
    raise _Seen(f"step {step}")

  try:
    found.restore({}, accept=look)
  except _Seen:
    pass
  except RuntimeError as error:
    raise ValueError(str(error)) from error
  return seen


class _Run(NamedTuple):
  """What a config describes: the state's shapes, and what it started from."""

  policy: types.Policy
  network: models.Config
  task: types.Task
  of: models.Pretrained | None
  base: Any
  template: Any


def _rebuilt(config: ConfigDict, folder: pathlib.Path, on) -> _Run:
  """A run as it was before its first step, without arrays but the base's."""
  try:
    of = build.pretrained(config.model, on, adapters.dtype(config))
    own = build.task(config.task, of)
    network = build.network(config.model, own.vocab_size, of)
    whole = models.policy(network)
    lm = adapters.policy(config, whole)
    sizes = build.sizes(config, own)
    rules = build.rules(config, sizes)
    optimiser = build.optimiser(config)
  except (AttributeError, KeyError, TypeError) as error:
    raise ValueError(
      f"{folder} was written with other fields than this code's configs have "
      f"({error}): evaluate it with the code that wrote it"
    ) from error

  def init(key):
    return train.init_state(rules, lm, optimiser, sizes, key)

  template = jax.eval_shape(init, jax.random.key(0))
  if on is not None:
    template = jax.tree.map(
      lambda x, where: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where),
      template,
      parallel.shardings(template, on),
    )
  base = None
  if adapters.rank(config):
    base = jax.tree.map(jnp.asarray, of.params)
  if of is not None:  # of a whole model trained, the first weights can go
    of = dataclasses.replace(of, params=None)
  make_step = functools.partial(
    train.make_step,
    rules,
    own,
    optimiser=optimiser,
    sizes=sizes,
    slots=config.slots,
    micro_rows=config.micro_rows,
  )
  template = adapters.with_base(template, base)
  template = forms.saved(config, own, make_step, whole, template)
  return _Run(lm, network, own, of, base, template)
