"""On one mesh or on two? How a run's step is run, and what it carries.

A run carries its TrainState from step to step. On two meshes
(`config.mesh.rollout_devices`) and with `config.staleness` above 0 it carries a
`train.Pipeline`, which holds besides it the steps that are rolled out and not
yet learned from.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
from absl import logging
from ml_collections import ConfigDict

from experiments import adapters
from jaxroll import parallel, recipe, train, types


class Form(NamedTuple):
  """How a run's step is run.

  Attributes:
    start: (state, data, settings) -> carried, from the first state.
    step: (carried, data, settings) -> carried, Output.
    template: (state, data) -> carried, as arrays or their shapes.
    state: (carried) -> types.TrainState.
    with_state: (carried, state) -> carried.
  """

  start: Callable
  step: Callable
  template: Callable
  state: Callable
  with_state: Callable

  def kept(self, carried):
    """What a checkpoint holds of it, see `adapters.kept`."""
    return self.with_state(carried, adapters.kept(self.state(carried)))

  def with_base(self, carried, base):
    """What a checkpoint held, with the adapters' base, if any."""
    state = adapters.with_base(self.state(carried), base)
    return self.with_state(carried, state)


def form(
  config: ConfigDict,
  task: types.Task,
  make_step: Callable,
  base: types.Policy,
  rules: recipe.Recipe,
  mesh: jax.sharding.Mesh | None,
) -> Form:
  """The form of a run by `mesh.rollout_devices` and `staleness`.

  Args:
    config: of the run.
    task: types.Task.
    make_step: (policy, *, mesh) -> train.Step.
    base: the whole model's policy.
    rules: the recipe.
    mesh: the one that trains, of `build.mesh`.

  Returns:
    A `Form`.

  Raises:
    ValueError: for a staleness or devices that no run can have.
  """

  def make(mesh):
    return adapters.step(config, functools.partial(make_step, mesh=mesh), base)

  devices = config.mesh.get("rollout_devices", 0)
  staleness = config.get("staleness", 0)
  if not devices:
    if staleness:
      raise ValueError(
        f"staleness={staleness} with mesh.rollout_devices=0: on one mesh a "
        "step waits for its rollouts; set mesh.rollout_devices, or staleness=0"
      )
    return _one_mesh(make(mesh), task)
  if staleness < 0:
    raise ValueError(f"staleness={staleness}: must be at least 0")
  parts = config.mesh.tensor * config.mesh.get("expert", 1)
  if devices % parts:
    raise ValueError(
      f"mesh.rollout_devices={devices} must be a multiple of mesh.tensor x "
      f"mesh.expert = {parts}, which both meshes have"
    )
  if staleness and "behaviour_logp" not in recipe.needs(rules):
    logging.warning(
      "staleness=%d, and the recipe corrects for none: rows are learned from "
      "as if they were the policy's own; a weight would, for example "
      "trust=trust.clip,trust.token_weight",
      staleness,
    )
  rollout_mesh = parallel.make_mesh(
    tensor=config.mesh.tensor,
    expert=config.mesh.get("expert", 1),
    devices=parallel.split_devices(devices)[0],
  )
  two = train.disaggregated(
    make,
    task,
    rollout_mesh=rollout_mesh,
    train_mesh=mesh,
    staleness=staleness,
  )
  if not staleness:
    return _nothing_pending(two)
  return Form(
    *two,
    state=lambda carried: carried.state,
    with_state=lambda carried, state: carried._replace(state=state),
  )


def saved(
  config: ConfigDict, task: types.Task, make_step: Callable, base, state
):
  """What a run's checkpoints hold, as shapes: a TrainState or a Pipeline.

  Args:
    config, task, make_step, base: as of `form`; the step needs no mesh.
    state: the first state, its base included.

  Returns:
    Arrays or their shapes, as `Form.kept` gives them.
  """
  kept = adapters.kept(state)
  staleness = config.get("staleness", 0)
  if not staleness:
    return kept
  step = adapters.step(config, make_step, base)
  draft = jax.eval_shape(step.begin, state, task.data)._replace(methods={})
  version = jax.ShapeDtypeStruct((), state.step.dtype)
  return train.Pipeline(kept, (train.Pending(draft, version),) * staleness)


def _nothing_pending(two: train.Disaggregated) -> Form:
  """Two meshes that wait for each other: a run carries no more than a state."""

  def step(state, data, settings):
    pipeline, output = two.step(train.Pipeline(state, ()), data, settings)
    return pipeline.state, output

  return _carries_state(
    lambda state, data, settings: two.start(state, data, settings).state, step
  )


def _one_mesh(step: train.Step, task: types.Task) -> Form:
  if task.jittable:
    run = jax.jit(train.fused(step, task), donate_argnums=0)
  else:
    run = train.hosted(step, task)
  return _carries_state(lambda state, data, settings: state, run)


def _carries_state(start, step) -> Form:
  """A run that carries a TrainState and nothing else."""
  return Form(
    start,
    step,
    template=lambda state, data: state,
    state=lambda carried: carried,
    with_state=lambda carried, state: state,
  )
