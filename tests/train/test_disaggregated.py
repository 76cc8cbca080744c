"""Two meshes that share a step do what one does, k updates apart."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from jaxroll import checkpoint, metrics, parallel, rollout, train, types
from jaxroll.train import plan
from tests.train import tiny

# Adam as it is turns the rounding of a tiny gradient into a whole step.
OPTIMISER = optax.apply_if_finite(optax.adamw(0.1, eps=1.0), 9)
STEPS = 4
DATA, SETTINGS = tiny.TASK.data, tiny.SETTINGS


def counted(rules):
  """The recipe with a memory of its own: selections made, steps learned."""
  (first, *others) = rules.select

  def init(sizes, *, key):
    del sizes, key
    return jnp.zeros((2,), jnp.int32)

  def apply(state, stats, pool, *, num, blocked=None, quota=None, key):
    ids = first(stats, pool, num=num, blocked=blocked, quota=quota, key=key)
    return ids, state + jnp.array([1, 0], jnp.int32)

  def update(state):
    return state + jnp.array([0, 1], jnp.int32)

  return rules._replace(select=(types.Method(init, apply, update), *others))


class Case(NamedTuple):
  """A recipe, a task and two meshes."""

  rules: object
  task: types.Task
  rollout_mesh: Mesh
  train_mesh: Mesh

  def make(self, mesh):
    return tiny.make(self.rules, task=self.task, optimiser=OPTIMISER, mesh=mesh)

  def form(self, staleness, task=None):
    return train.disaggregated(
      self.make,
      task or self.task,
      rollout_mesh=self.rollout_mesh,
      train_mesh=self.train_mesh,
      staleness=staleness,
    )

  def state(self):
    state = tiny.state(self.rules, OPTIMISER)
    return jax.device_put(state, parallel.shardings(state, self.train_mesh))


@functools.cache
def case(name):
  """even: 4 + 4 devices. uneven: 2 + 6, rounds, a verifier on the host."""
  if name == "even":
    some, others = parallel.split_devices(4)
    return Case(
      tiny.RECIPES["uniform"](tiny.SIZES),
      tiny.TASK,
      parallel.make_mesh(devices=some),
      parallel.make_mesh(data=1, fsdp=2, tensor=2, devices=others),
    )
  some, others = parallel.split_devices(rollout=2, train=6)
  return Case(
    counted(tiny.RECIPES["vigor"](tiny.SIZES)),
    tiny.HOST_TASK,
    parallel.make_mesh(devices=some),
    parallel.make_mesh(data=2, tensor=3, devices=others),
  )


class Run(NamedTuple):
  """Some steps: on the host, states before and after each, and outputs.

  Attributes:
    pipelines: steps + 1, as `device_get` has them. outputs: steps of them.
    compilations: in each step.
  """

  pipelines: list
  outputs: list
  compilations: list


def host(tree):
  """A copy, which donation leaves alone."""
  return jax.tree.map(
    np.array,
    jax.tree.map(
      lambda x: (
        jax.random.key_data(x)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        else x
      ),
      tree,
    ),
  )


def steps(form, pipeline, number=STEPS):
  run = Run([host(pipeline)], [], [])
  counter = metrics.CompileCounter()
  for _ in range(number):
    mark = counter.count
    pipeline, output = form.step(pipeline, DATA, SETTINGS)
    run.compilations.append(counter.since(mark))
    run.pipelines.append(host(pipeline))
    run.outputs.append(host(output))
  counter.close()
  return run


@functools.cache
def ran(name, staleness):
  form = case(name).form(staleness)
  return steps(form, form.start(case(name).state(), DATA, SETTINGS))


# --- no staleness


@functools.cache
def synchronous(name):
  """The steps one after the other, each part awaited: states, outputs."""
  of = case(name)
  learning, rolling = of.make(of.train_mesh), of.make(of.rollout_mesh)
  begin, learn = jax.jit(learning.begin), jax.jit(learning.learn)
  generate, absorb = jax.jit(rolling.generate), jax.jit(rolling.absorb)

  def put(tree, mesh):
    where = parallel.whole(tree, mesh)
    if isinstance(tree, train.Draft):
      rows = parallel.row_shardings((tree.rollouts, tree.outcome), mesh)
      where = where._replace(rollouts=rows[0], outcome=rows[1])
    return jax.block_until_ready(jax.device_put(tree, where))

  state, states, outputs = of.state(), [], []
  for _ in range(3):
    draft = put(begin(state, DATA), of.rollout_mesh)
    there = put(state, of.rollout_mesh)
    for number in range(len(rolling.rounds)):
      request, rows, draft = generate(there, SETTINGS, draft, np.int32(number))
      outcome = of.task.verify(*jax.device_get((draft.prompts, rows)))
      draft = absorb(draft, request, rows, outcome)
    state, output = learn(state, SETTINGS, put(draft, of.train_mesh))
    states.append(host(state))
    outputs.append(host(output))
  return states, outputs


@pytest.mark.parametrize("name", ["even", "uneven"])
def test_without_staleness_it_is_the_synchronous_run(name):
  states, outputs = synchronous(name)
  run = ran(name, 0)
  for number in range(3):
    assert run.pipelines[number + 1].pending == ()
    assert tiny.same(run.pipelines[number + 1].state, states[number])
    one = outputs[number]
    other = run.outputs[number]
    assert other.metrics["version_lag"] == 0
    for metric, value in one.metrics.items():
      np.testing.assert_array_equal(value, other.metrics[metric], metric)
    assert tiny.same(one.rollouts, other.rollouts)
    assert tiny.same(one.outcome, other.outcome)


def test_without_staleness_it_is_the_step_of_one_mesh():
  of = case("even")
  fused = jax.jit(train.fused(of.make(None), tiny.TASK))
  state, output = fused(tiny.state(of.rules, OPTIMISER), DATA, SETTINGS)
  run = ran("even", 0)
  np.testing.assert_array_equal(
    output.rollouts.tokens, run.outputs[0].rollouts.tokens
  )
  tiny.close(host(state.learners), run.pipelines[1].state.learners, 1e-5)
  tiny.close(state.stats, run.pipelines[1].state.stats)


# --- staleness


def regenerate(of, params, output):
  """The rows of a step again, from parameters and identities alone."""
  rows, ids = output.rollouts, jnp.asarray(output.prompts.id)
  zero = jnp.zeros_like(rows.group)
  request = types.Request(
    group=jnp.asarray(rows.group),
    index=jnp.asarray(rows.index),
    context=jnp.asarray(rows.context),
    born=jnp.asarray(rows.born),
    limit=zero + SETTINGS.limit,
    given=jnp.zeros((len(zero), 0), jnp.int32),
    given_length=zero,
    row=jnp.arange(len(zero), dtype=jnp.int32),
    valid=jnp.asarray(rows.valid),
  )
  occurrence = jnp.asarray(output.prompts.occurrence)
  keys = rollout.row_keys(
    jax.random.fold_in(jax.random.key(0), plan.ROWS),
    request.born,
    ids[request.group],
    occurrence[request.group],
    request.index,
  )
  params = jax.device_put(params, parallel.whole(params, of.rollout_mesh))
  rows, _ = generate(params, of.task.prompts(DATA, ids)[1], request, keys)
  return rows


@jax.jit
def generate(params, contexts, request, keys):
  return rollout.generate(
    tiny.POLICY,
    params,
    contexts,
    request,
    keys,
    SETTINGS.sampler,
    SETTINGS.stops,
    slots=16,
    max_length=tiny.SIZES.response_length,
    mesh=case("even").rollout_mesh,
  )


def test_rows_are_of_the_weights_before_the_last_update():
  of, run = case("even"), ran("even", 1)
  lags = [int(output.metrics["version_lag"]) for output in run.outputs]
  assert lags == [0, 1, 1, 1]
  for number, (output, lag) in enumerate(zip(run.outputs, lags)):
    assert (output.rollouts.born == number).all()
    learner = run.pipelines[number - lag].state.learners["policy"]
    again = regenerate(of, learner.params, output)
    np.testing.assert_array_equal(again.tokens, output.rollouts.tokens)
    np.testing.assert_array_equal(again.length, output.rollouts.length)
    gap = output.metrics["sampler_gap_mean"]
    assert gap > 1e-3 if lag else gap < 2e-5
  # The weights of the step itself say other things.
  newest = run.pipelines[3].state.learners["policy"].params
  again = regenerate(of, newest, run.outputs[3])
  assert (again.tokens != run.outputs[3].rollouts.tokens).any()


def test_beliefs_are_those_of_the_planned_version():
  """Step 1 is selected and learned as if step 0 had not been."""
  run = ran("even", 1)
  (first,), (second,) = (p.pending for p in run.pipelines[:2])
  assert first.version == second.version == 0
  np.testing.assert_array_equal(first.draft.counts, run.outputs[0].counts)
  np.testing.assert_array_equal(
    second.draft.prompts.id, run.outputs[1].prompts.id
  )
  seen = run.pipelines[2].state.stats.seen
  assert set(np.unique(seen)) <= {-1, 0, 1}
  assert (seen[run.outputs[1].prompts.id] == 1).all()


@pytest.mark.parametrize("name, staleness", [("uneven", 0), ("uneven", 2)])
def test_a_memory_is_one_and_planning_runs_ahead(name, staleness):
  run = ran(name, staleness)
  for number, pipeline in enumerate(run.pipelines):
    planned, learned = pipeline.state.methods["select.0"]
    assert (planned, learned) == (number + staleness, number)
  lags = [int(output.metrics["version_lag"]) for output in run.outputs]
  assert lags == [min(number, staleness) for number in range(STEPS)]
  for output in run.outputs:
    assert output.counts.sum() == tiny.SIZES.rows
    assert len(set(output.rollouts.round.tolist())) == 2


@pytest.mark.parametrize("name, staleness", [("even", 1), ("uneven", 2)])
def test_nothing_compiles_after_the_second_step(name, staleness):
  assert ran(name, staleness).compilations[2:] == [0] * (STEPS - 2)


def test_the_update_is_dispatched_before_rollouts_are_awaited():
  """It has taken over the state when the host verifies the step to come."""
  of, pipelines, gone = case("uneven"), [], []

  def verify(*args):
    gone.extend(p.state.step.is_deleted() for p in pipelines[-1:])
    return of.task.verify(*args)

  form = of.form(2, of.task._replace(verify=verify))
  pipelines.append(form.start(of.state(), DATA, SETTINGS))
  for _ in range(2):
    pipelines.append(form.step(pipelines[-1], DATA, SETTINGS)[0])
  assert gone == [True] * 4  # 2 steps of 2 rounds


def test_a_killed_run_goes_on_bitwise(tmp_path):
  of, run = case("even"), ran("even", 1)
  form = of.form(1)
  pipeline = form.start(of.state(), DATA, SETTINGS)
  for _ in range(2):
    pipeline, _ = form.step(pipeline, DATA, SETTINGS)
  with checkpoint.Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(2, pipeline, {})
  del form, pipeline
  form = of.form(1)
  with checkpoint.Checkpoints(tmp_path) as checkpoints:
    pipeline = checkpoints.restore(form.template(of.state(), DATA)).state
  again = steps(form, pipeline, 2)
  assert tiny.same(again.pipelines, run.pipelines[2:])
  assert tiny.same(again.outputs, run.outputs[2:])


# --- meshes


def test_split_devices():
  all_of_them = jax.devices()
  for given in (
    dict(rollout=3),
    dict(rollout=-1, train=5),
    dict(rollout=3, train=5),
  ):
    assert parallel.split_devices(**given) == (all_of_them[:3], all_of_them[3:])
  assert parallel.split_devices(1, 1, devices="ab") == (["a"], ["b"])


@pytest.mark.parametrize(
  "numbers", [(0, 8), (8, 0), (8, -1), (4, 3), (-1, -1), (-2, 10), (9, -1)]
)
def test_devices_that_cannot_be_split(numbers):
  with pytest.raises(ValueError, match="of 8 devices.*together they are 8"):
    parallel.split_devices(*numbers)


@pytest.mark.parametrize("shape", [(12, 24), (8, 8), (6,), ()])
@pytest.mark.parametrize("number", [2, 4, 6])
def test_transfer_waits_for_nothing(shape, number, monkeypatch):
  """Wherever shards lie and are wanted; no value passes through the host."""
  some, others = parallel.split_devices(number)
  sizes = {2: {}, 4: dict(fsdp=2, tensor=2), 6: dict(fsdp=3, tensor=2)}
  source = parallel.make_mesh(data=-1, devices=some, **sizes[number])
  target = parallel.make_mesh(data=-1, devices=others, **sizes[8 - number])
  x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
  layouts = (Spec("fsdp"), Spec(None, "tensor"), Spec("tensor", "fsdp"))
  layouts += (Spec(("data", "fsdp")),)
  rules = [((r"", layout),) for layout in layouts] + [()]

  def shardings(mesh):
    return [parallel.shardings(x, mesh, rule) for rule in rules]

  sources = [jax.device_put(x, where) for where in shardings(source)]
  with monkeypatch.context() as patch:
    patch.setattr(type(sources[0]), "_value", property(_no_value))
    moved = [
      (parallel.transfer({"x": there}, {"x": where})["x"], where)
      for there in sources
      for where in shardings(target)
    ]
  for there, where in moved:
    assert there.sharding.is_equivalent_to(where, x.ndim)
    np.testing.assert_array_equal(there, x)


def _no_value(array):
  raise AssertionError("read on the host")


# --- what cannot run


def meshes(some, others):
  devices = jax.devices()
  return {
    "rollout_mesh": parallel.make_mesh(devices=devices[some]),
    "train_mesh": parallel.make_mesh(devices=devices[others]),
  }


def empty():
  nothing = np.empty((1, 0, 1), dtype=object)
  return Mesh(nothing, ("data", "fsdp", "tensor"))


@pytest.mark.parametrize(
  "changes, words",
  [
    (dict(staleness=-1), "staleness=-1 must be >= 0: 0 is the synchronous"),
    (dict(staleness=0.5), "staleness=0.5: a whole number"),
    (dict(staleness=True), "staleness=True: a whole number"),
    (meshes(slice(0, 5), slice(3, 8)), r"share the devices \[3, 4\].*split_"),
    (dict(rollout_mesh=empty()), "rollout_mesh has no device"),
    (dict(train_mesh=empty()), "train_mesh has no device"),
  ],
)
def test_what_is_refused(changes, words):
  given = meshes(slice(0, 4), slice(4, 8)) | dict(staleness=0) | changes
  with pytest.raises(ValueError, match=words):
    train.disaggregated(case("even").make, tiny.TASK, **given)


def test_rows_that_do_not_divide_stay_whole():
  mesh = parallel.make_mesh(data=2, fsdp=2, tensor=2)
  shapes = [jnp.zeros((8, 3)), jnp.zeros((6,))]
  split, stays = parallel.row_shardings(shapes, mesh)
  assert split == NamedSharding(mesh, Spec(("data", "fsdp")))
  assert stays == NamedSharding(mesh, Spec())
