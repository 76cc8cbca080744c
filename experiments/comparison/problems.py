"""What is learned, and how well? A task and a policy for every seed.

A seed fixes everything that the methods share: on a population the prompts, on
a task of tokens the policy's first parameters after its warm start, and always
the noise of sampling and evaluation. Methods are then compared in pairs.
"""

import functools
import os
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import serialization
from ml_collections import ConfigDict

from experiments import build
from jaxroll import evaluate, metrics, recipe, train, types

# Exact populations of prompts: functions of jaxroll.evaluate.population.
POPULATIONS = ("logistic", "skills", "mean_field")

_EVALUATE = 2**31 - 3  # what its random numbers are for

# The least that a field may be, beside those of `build.check`.
_POSITIVE = ("budget", "margin", "update_norm", "learning_rate")


class Instance(NamedTuple):
  """What the methods share on one seed.

  Attributes:
    task: types.Task. policy: types.Policy.
    params: the policy's before the first step.
    evaluate: (params) -> dict of floats, the same noise at every call.
  """

  task: types.Task
  policy: types.Policy
  params: Any
  evaluate: Callable


class Problem(NamedTuple):
  """What is learned.

  Attributes:
    sizes: static sizes of a step. settings: train.Settings.
    mesh: None for one device.
    metrics: names that an evaluation has.
    instance: (seed) -> Instance.
    fixed: whether all seeds have the same task and policy.
    optimiser: (learning_rate) -> optax transformation.
    matched: whether every rollout moves the policy by the same length.
    jittable: whether rows are verified on the device.
  """

  sizes: types.Sizes
  settings: train.Settings
  mesh: jax.sharding.Mesh | None
  metrics: tuple
  instance: Callable
  fixed: bool
  optimiser: Callable
  matched: bool
  jittable: bool


def check(config: ConfigDict) -> None:
  """Refuses numbers that no comparison can have.

  Raises:
    ValueError: naming each with its value.
  """
  build.check(config)
  fields = metrics.flatten(config.to_dict())
  wrong = [name for name in _POSITIVE if not 0 < fields[name] < float("inf")]
  if wrong:
    shown = ", ".join(f"{name}={fields[name]}" for name in wrong)
    raise ValueError(f"{shown}: must be finite and greater than 0")
  if not config.tuning_rates or min(config.tuning_rates) <= 0:
    raise ValueError(
      f"tuning_rates={config.tuning_rates}: give factors of learning_rate, "
      "each greater than 0"
    )
  if config.tuning_seeds < 1:
    raise ValueError(
      f"tuning_seeds={config.tuning_seeds} must be at least 1: raise it"
    )
  if not 0 < config.target_share <= 1:
    raise ValueError(f"target_share={config.target_share}: must be in (0, 1]")
  if not 0.05 < config.power < 1:
    raise ValueError(f"power={config.power}: must be in (0.05, 1)")


def make(config: ConfigDict, workdir, *, step_size: str) -> Problem:
  """The problem that a config describes.

  Args:
    config: fields of configs/compare_population.py or compare_arithmetic.py.
    workdir: where warm starts are kept, in `starts/`; need not exist yet.
    step_size: "matched" rescales every update to config.update_norm, for a
      step that spends all of its rollouts.

  Returns:
    A `Problem`.

  Raises:
    ValueError: where the config cannot run.
  """
  matched = config.update_norm if step_size == "matched" else None
  of = _tokens if config.task.name not in POPULATIONS else _population
  problem = of(config, pathlib.Path(workdir), matched)
  if config.metric not in problem.metrics:
    raise ValueError(
      f"metric={config.metric!r}: must be one of {problem.metrics}"
    )
  return problem


def _check_pool(config, task):
  if config.prompts > len(task.train_pool):
    raise ValueError(
      f"prompts={config.prompts} a step, but task {task.name!r} has only "
      f"{len(task.train_pool)} training prompts: lower prompts"
    )


def _population(config, workdir, update_norm) -> Problem:
  del workdir
  arguments = config.task.to_dict()
  of = getattr(evaluate.population, arguments.pop("name"))
  first = arguments.pop("seed")

  def draw(seed):
    try:
      return of(**arguments, seed=first + seed)
    except TypeError as error:
      raise ValueError(
        f"task.{config.task.name} does not take these fields: {error}"
      ) from error

  def instance(seed) -> Instance:
    population = draw(seed)
    task = population.task

    def measure(params):
      rate = population.solve_rate(params)
      found = {"solve_rate": rate[task.train_pool]}
      if len(task.eval_pool):
        found["held_out"] = rate[task.eval_pool]
      return {name: float(jnp.mean(x)) for name, x in found.items()}

    params = population.policy.init(jax.random.key(seed))
    return Instance(task, population.policy, params, measure)

  task = draw(0).task
  _check_pool(config, task)
  return Problem(
    sizes=build.sizes(config, task),
    settings=build.settings(config, task),
    mesh=None,
    metrics=("solve_rate", "held_out")
    if len(task.eval_pool)
    else ("solve_rate",),
    instance=instance,
    fixed=False,
    optimiser=functools.partial(train.sgd, update_norm=update_norm),
    matched=update_norm is not None,
    jittable=True,
  )


def _tokens(config, workdir, update_norm) -> Problem:
  pretrained = build.pretrained(config.model)
  task = build.task(config.task, pretrained)
  _check_pool(config, task)
  policy = build.policy(config.model, task.vocab_size, pretrained)
  mesh = build.mesh(config.mesh)
  sizes = build.sizes(config, task)
  settings = build.settings(config, task)
  baseline = recipe.resolve("recipes.uniform")(sizes)
  warm_start = build.warm_start(config, task, policy, baseline)
  sample = build.evaluation(config, task, policy, mesh)

  def optimiser(learning_rate) -> optax.GradientTransformation:
    return train.adamw(
      learning_rate, clip_norm=config.clip_norm, update_norm=update_norm
    )

  def start(seed):
    """Pretrained parameters, or those after the warm start, kept on disk."""
    if pretrained is not None:
      return jax.tree.map(jnp.asarray, pretrained.params)
    path = workdir / "starts" / f"{seed}.msgpack"
    key = jax.random.key(seed)
    # Its optimiser is the warm start's own; this one's state is not used.
    init = functools.partial(
      train.init_state, baseline, policy, optimiser(1.0), sizes
    )
    if path.exists():
      shapes = jax.eval_shape(init, key).learners["policy"].params
      empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
      loaded = serialization.from_bytes(empty, path.read_bytes())
      return jax.tree.map(jnp.asarray, loaded)
    params = warm_start(jax.jit(init)(key))[0].learners["policy"].params
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    partial.write_bytes(serialization.to_bytes(jax.device_get(params)))
    os.replace(partial, path)
    return params

  def instance(seed) -> Instance:
    key = jax.random.fold_in(jax.random.key(seed), _EVALUATE)

    def measure(params):
      values, _ = sample(params, task.data, settings, key)
      names = {"pass@1": "eval/pass@1", "pass@k": "eval/pass@k"}
      return {name: float(values[of]) for name, of in names.items()}

    return Instance(task, policy, start(seed), measure)

  return Problem(
    sizes=sizes,
    settings=settings,
    mesh=mesh,
    metrics=("pass@1", "pass@k"),
    instance=instance,
    fixed=True,
    optimiser=optimiser,
    matched=update_norm is not None,
    jittable=task.jittable,
  )
