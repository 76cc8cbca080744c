"""Which model is evaluated, on which task? From names to functions."""

import inspect
import json
import os
import pathlib
import tempfile
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from experiments import build
from jaxroll import checkpoint, environments, models, train, types

_FOLDER = "checkpoints"


class Subject(NamedTuple):
  """A model that can be sampled from.

  Attributes:
    policy, params: what makes tokens.
    vocab_size: how many tokens it knows.
    tokenizer: of a pretrained model; None where a task's own is used.
    task: what it was trained on, or None.
    about: for summary.json: where it comes from.
  """

  policy: types.Policy
  params: Any
  vocab_size: int
  tokenizer: Any
  task: types.Task | None
  about: dict


def load(model: str, *, step: int | None = None) -> Subject:
  """A model by its path or name.

  Args:
    model: the workdir of a training run or its checkpoints/, or whatever
      `models.load` takes: a Hugging Face folder, a GGUF file or a name.
    step: of a training run; None takes the newest that restores.

  Returns:
    `Subject`.

  Raises:
    ValueError: no such model, or one that cannot be read.
  """
  folder = _checkpoints(model)
  if folder is not None:
    return _trained(folder, step)
  if step is not None:
    raise ValueError(
      f"step={step}, but {model} is no training run: leave --step out"
    )
  try:
    found = models.load(model)
  except FileNotFoundError as error:
    raise ValueError(
      f"--model={model}: {error}; give a training run's --workdir, a Hugging "
      "Face folder, a GGUF file or a model's name"
    ) from error
  return Subject(
    policy=models.policy(found.config),
    params=jax.tree.map(jnp.asarray, found.params),
    vocab_size=found.config.vocab_size,
    tokenizer=found.tokenizer,
    task=None,
    about={"model": model},
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
  made = function(**options)
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


def _trained(folder: pathlib.Path, step: int | None) -> Subject:
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
      lm, own, template = _rebuilt(config, folder)
      restored = found.restore(template)
  return Subject(
    policy=lm,
    params=restored.state.learners["policy"].params,
    vocab_size=own.vocab_size,
    tokenizer=None,
    task=own,
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


def _rebuilt(config: ConfigDict, folder: pathlib.Path):
  """Policy, task and the shapes of the state that a config describes."""
  try:
    of = build.pretrained(config.model)
    own = build.task(config.task, of)
    lm = build.policy(config.model, own.vocab_size, of)
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

  return lm, own, jax.eval_shape(init, jax.random.key(0))
