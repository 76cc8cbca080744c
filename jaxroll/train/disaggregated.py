"""How is a step run on two meshes at once? One rolls out, the other learns.

The training mesh has the state. What a rollout reads of it, the policy's
parameters and the beliefs, is copied to the rollout mesh, and the rows that
come of it are copied back. With a staleness bound k the rollouts of step t + k
are dispatched beside the update of step t, from the weights that step t began
with, so that neither mesh waits for the other:

  k = 0   plan t -> roll out t -> learn t: the synchronous run
  k > 0   plan t + k | learn t on one mesh, roll out t + k on the other

Rows of step t are from weights of version max(t - k, first), the version being
the number of updates, and `version_lag` in a step's metrics says how many
updates the weights had missed. What follows from k > 0:

  selection, allocation    see beliefs (PromptStats) of that same version; rows
                           of the k steps in flight are not in them, and a
                           prompt in flight may be selected again
  behaviour_logp           is the sampler's, of the old weights
  old_logp                 is of the weights that the update starts from, so
                           that the functions of `trust` with a weight or a mask
                           correct for staleness and rounding alike, and
                           `sampler_gap_mean` shows both; a recipe without one
                           learns as if its rows were on-policy
  a method's memory        is one: whatever reads or writes it finds what the
                           last one left, planning running k steps ahead; a
                           replay's rows come back k steps later, and its
                           `max_age` must be above k

Decoupled weights, behind and ahead of the rows: Hilton et al. (2022),
arXiv:2110.00641; with a staleness bound, for language models: AReaL (2025),
arXiv:2505.24298.
"""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import numpy as np
from jax.sharding import Mesh

from jaxroll import parallel, types
from jaxroll.train import forms
from jaxroll.train.plan import Draft
from jaxroll.train.step import Settings, Step


class Pending(NamedTuple):
  """A step that has been rolled out and not been learned from.

  Attributes:
    draft: with all its rows and outcomes; its methods are the state's.
    version: i32[], updates that the weights behind its rows have had.
  """

  draft: Draft
  version: chex.Array


class Pipeline(NamedTuple):
  """All that a run carries from call to call: save it and nothing else.

  Attributes:
    state: on the training mesh.
    pending: the k next steps, the next one first; on the training mesh.
  """

  state: types.TrainState
  pending: tuple[Pending, ...]


class Disaggregated(NamedTuple):
  """The step on two meshes; jits its own parts.

  Attributes:
    start: (state, data, settings) -> Pipeline, the first k steps rolled out.
      Takes over the state, which is placed on the training mesh.
    step: (pipeline, data, settings) -> Pipeline, Output. Takes over the memory
      of the pipeline's state, its frozen parameters excepted. Returns before
      the work is done where the verifier can be traced.
    template: (state, data) -> the Pipeline that `start` would return, its
      pending steps as shapes with shardings: for `Checkpoints.restore`.
  """

  start: Callable
  step: Callable
  template: Callable


def disaggregated(
  make: Callable[..., Step],
  task: types.Task,
  *,
  rollout_mesh: Mesh,
  train_mesh: Mesh,
  staleness: int = 0,
) -> Disaggregated:
  """A step whose rollouts and update have devices of their own.

  Args:
    make: (*, mesh) -> Step: `train.make_step` with all but `mesh` given.
      Called for each of the two meshes.
    task: of the step; verified on the host between rounds if it must be.
    rollout_mesh: where rows are generated. Weights lie on it by the table of
      `parallel.shardings`: whole on each device but for `fsdp` and `tensor`.
    train_mesh: where the state lies, prompts are selected and the policy
      learns; no device of the other.
    staleness: k >= 0, most updates that the weights of a step's rollouts may
      have missed.

  Returns:
    `Disaggregated`. With k = 0 it is the synchronous run to the bit.

  Raises:
    ValueError: for k < 0; for meshes that are empty, overlap or belong to
      several processes.

  Example:
    some, others = parallel.split_devices(rollout=4)
    form = train.disaggregated(
      functools.partial(train.make_step, rules, task, policy, optimiser, sizes,
                        slots=64, micro_rows=16),
      task,
      rollout_mesh=parallel.make_mesh(devices=some),
      train_mesh=parallel.make_mesh(data=1, fsdp=-1, devices=others),
      staleness=1,
    )
    pipeline = form.start(state, task.data, settings)
    pipeline, output = form.step(pipeline, task.data, settings)

  Note:
    The last k pending steps of a run are never learned from.
  """
  _check(rollout_mesh, train_mesh, staleness)
  learning, rolling = make(mesh=train_mesh), make(mesh=rollout_mesh)
  roll_out = _make_roll_out(rolling, task, rollout_mesh)

  @jax.jit
  def plan(state: types.TrainState, data, ahead):
    """A step to come, ahead of the state: Draft, memory, step, version."""
    later = state.replace(step=state.step + ahead)
    draft = learning.begin(later, data)
    memory = {"methods": draft.methods}
    memory = jax.lax.with_sharding_constraint(
      memory, parallel.shardings(memory, train_mesh)
    )
    draft = _placed(draft._replace(methods={}), train_mesh)
    # Sums, not the state's own array: the update will have taken it over.
    return draft, memory["methods"], later.step, state.step + 0

  def learn(state, frozen, pending: Pending, settings: Settings):
    lag = state.step - pending.version
    draft = pending.draft._replace(methods=state.methods)
    state = state.replace(frozen=frozen)
    state, output = learning.learn(state, settings, draft)
    metrics = output.metrics | {"version_lag": lag}
    return state.replace(frozen={}), output._replace(metrics=metrics)

  learn = jax.jit(learn, donate_argnums=0)
  copies = _Frozen(rollout_mesh)

  def weights(state: types.TrainState) -> types.TrainState:
    """What rollouts read of a state, on the rollout mesh."""
    policy = types.Learner(state.learners["policy"].params, opt_state=())
    read = state.replace(learners={"policy": policy}, frozen={}, methods={})
    read = parallel.transfer(read, parallel.shardings(read, rollout_mesh))
    return read.replace(frozen=copies.of(state.frozen))

  def prepare(state: types.TrainState, read: types.TrainState, data, ahead):
    """Plans a step to come; returns the state after it, and how to roll out.

    The planner's memory goes on; the rest of the state stays.
    """
    draft, methods, number, version = plan(state, data, np.int32(ahead))
    draft, number = parallel.transfer(
      (draft, number),
      (_where(draft, rollout_mesh), parallel.whole(number, rollout_mesh)),
    )

    def rolled(settings: Settings) -> Pending:
      done = roll_out(read.replace(step=number), draft, settings)
      done = parallel.transfer(done, _where(done, train_mesh))
      return Pending(done, version)

    return state.replace(methods=methods), rolled

  def start(state: types.TrainState, data, settings: Settings) -> Pipeline:
    state = jax.device_put(state, parallel.shardings(state, train_mesh))
    read, pending = weights(state), []
    for ahead in range(staleness):
      state, rolled = prepare(state, read, data, ahead)
      pending.append(rolled(settings))
    return Pipeline(state, tuple(pending))

  def step(pipeline: Pipeline, data, settings: Settings):
    state, pending = pipeline
    read = weights(state)
    state, rolled = prepare(state, read, data, staleness)
    if not staleness:
      pending = (rolled(settings),)
    # Dispatched before the rollouts, whose verifier may keep the host waiting.
    frozen = state.frozen
    state, output = learn(
      state.replace(frozen={}), frozen, pending[0], settings
    )
    state = state.replace(frozen=frozen)
    if staleness:
      pending = (*pending, rolled(settings))
    return Pipeline(state, pending[1:]), output

  def template(state: types.TrainState, data) -> Pipeline:
    draft, _, _, version = jax.eval_shape(plan, state, data, np.int32(0))
    pending = Pending(draft, version)
    where = Pending(
      _where(draft, train_mesh), parallel.whole(version, train_mesh)
    )
    shaped = jax.tree.map(
      lambda x, to: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=to),
      pending,
      where,
    )
    return Pipeline(state, (shaped,) * staleness)

  return Disaggregated(start, step, template)


class _Frozen:
  """Frozen parameters on another mesh, copied once: they stay what they are.

  The reference is left out, which no rollout reads.
  """

  def __init__(self, mesh: Mesh):
    self._mesh, self._known, self._copy = mesh, None, None

  def of(self, frozen: dict) -> dict:
    """The copy of these parameters."""
    read = {name: x for name, x in frozen.items() if name != "reference"}
    leaves = jax.tree.leaves(read)
    known = self._known is not None and len(self._known) == len(leaves)
    if not known or any(a is not b for a, b in zip(self._known, leaves)):
      where = parallel.shardings({"frozen": read}, self._mesh)["frozen"]
      self._known, self._copy = leaves, parallel.transfer(read, where)
    return self._copy


def _make_roll_out(step: Step, task: types.Task, mesh: Mesh) -> Callable:
  """The middle of a step alone: (weights, draft, settings) -> Draft."""
  middle = step._replace(
    begin=lambda weights, draft: draft,
    learn=lambda weights, settings, draft: _placed(draft, mesh),
  )
  if task.jittable:
    return jax.jit(forms.fused(middle, task))
  return forms.hosted(middle, task)


def _where(draft: Draft, mesh: Mesh) -> Draft:
  """Shardings of a draft: rows over `data` x `fsdp` where these divide them."""
  rows = (draft.rollouts, draft.outcome)
  rollouts, outcome = parallel.row_shardings(rows, mesh)
  where = parallel.whole(draft, mesh)
  return where._replace(rollouts=rollouts, outcome=outcome)


def _placed(draft: Draft, mesh: Mesh) -> Draft:
  return jax.lax.with_sharding_constraint(draft, _where(draft, mesh))


def _check(rollout_mesh: Mesh, train_mesh: Mesh, staleness: int) -> None:
  """Refuses meshes and bounds that no run can have."""
  if isinstance(staleness, bool) or not isinstance(staleness, int):
    raise ValueError(f"staleness={staleness!r}: a whole number >= 0")
  if staleness < 0:
    raise ValueError(
      f"staleness={staleness} must be >= 0: 0 is the synchronous run, 1 rolls "
      "out a step while the one before it is learned from"
    )
  meshes = {"rollout_mesh": rollout_mesh, "train_mesh": train_mesh}
  for name, mesh in meshes.items():
    if not mesh.size:
      raise ValueError(
        f"{name} has no device: give it some, for example by "
        "parallel.split_devices"
      )
    if mesh.is_multi_process:
      raise ValueError(
        f"{name} has devices of several processes, and weights are copied "
        "within one: split the devices of one process, or run both parts of a "
        "step on one mesh with train.fused or train.hosted"
      )
  both = set(rollout_mesh.devices.flat) & set(train_mesh.devices.flat)
  if both:
    raise ValueError(
      f"rollout_mesh and train_mesh share the devices "
      f"{sorted(device.id for device in both)}: they must have none in common; "
      "parallel.split_devices makes two lists of them"
    )
