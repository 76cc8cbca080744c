"""population: the pair of task and policy, driven by the real training step."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxroll import recipes, rollout, train, types
from jaxroll.evaluate import population

TOYS = {
  "logistic": lambda: population.logistic(40, num_eval=10, features=3),
  "skills": lambda: population.skills(40, 4, num_eval=10),
  "mean_field": lambda: population.mean_field(40, clusters=4, num_eval=10),
}
EVERY = pytest.mark.parametrize("name", sorted(TOYS))


def drawn(toy, seed=0):
  """Parameters that are not 0."""
  start = toy.policy.init(jax.random.key(0))
  leaves, tree = jax.tree.flatten(start)
  keys = jax.random.split(jax.random.key(seed), len(leaves))
  return tree.unflatten(
    [0.3 * jax.random.normal(k, x.shape) for k, x in zip(keys, leaves)]
  )


# --- the task


@EVERY
def test_task_keeps_the_protocol(name):
  toy = TOYS[name]()
  task, total = toy.task, 50
  assert not set(task.train_pool) & set(task.eval_pool)
  assert len(task.train_pool) == 40 and len(task.eval_pool) == 10
  for column in (task.grade, task.source, task.feature, task.data):
    assert len(column) == total
  assert task.source.max() < len(task.sources)
  np.testing.assert_array_equal(np.bincount(task.grade), [10] * 5)
  prompts, contexts = jax.jit(task.prompts)(task.data, jnp.array([7, -1, 7]))
  assert prompts.id.tolist() == [7, -1, 7]
  assert prompts.occurrence.tolist() == [0, 0, 1]
  assert contexts.tokens.tolist() == [[7], [0], [7]]
  assert contexts.length.tolist() == [1, 1, 1]
  assert task.decode([1]) == "1"


@EVERY
def test_grades_order_the_first_solve_rates(name):
  toy = TOYS[name]()
  rate = toy.solve_rate(toy.policy.init(jax.random.key(0)))
  for grade in range(4):
    easier = rate[toy.task.grade == grade]
    assert easier.min() >= rate[toy.task.grade == grade + 1].max()


def test_verifier_pays_the_token_and_knows_empty_rows():
  rows = rollout.empty(3, 1).replace(
    tokens=jnp.array([[0], [1], [1]]), valid=jnp.array([True, True, False])
  )
  outcome = TOYS["logistic"]().task.verify(None, rows)
  assert outcome.reward.tolist() == [0.0, 1.0, 0.0]
  assert outcome.status.tolist() == [types.SCORED] * 2 + [types.ABORTED]


# --- the policy


@EVERY
def test_policy_says_what_solve_rate_says(name):
  toy = TOYS[name]()
  params, ids = drawn(toy), jnp.arange(50, dtype=jnp.int32)
  ones = jnp.ones((50,), jnp.int32)
  logp, entropy = train.token_logps(
    toy.policy, params, ids[:, None], ones, ones[:, None], ones, 1.0
  )
  rate = np.asarray(toy.solve_rate(params), np.float64)
  np.testing.assert_allclose(np.exp(logp[:, 0]), rate, rtol=1e-5, atol=1e-7)
  coin = -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)
  np.testing.assert_allclose(entropy[:, 0], coin, rtol=1e-4, atol=1e-6)


def test_logits_by_hand():
  toy = population.logistic(6, features=3, num_eval=0, sharpness=2.0)
  w = jnp.array([0.0, 0.0, 0.0, 0.5])
  start = toy.logit({"w": 0 * w}, jnp.arange(6))
  # The constant coordinate moves every prompt by sharpness * 0.5.
  np.testing.assert_allclose(
    toy.logit({"w": w}, jnp.arange(6)), start + 1.0, rtol=1e-5
  )
  assert toy.task.feature[:, 3].tolist() == [1.0] * 6


def test_skills_share_nothing():
  toy = TOYS["skills"]()
  start = toy.policy.init(jax.random.key(0))
  moved = toy.logit({"w": start["w"].at[2].set(1.0)}, jnp.arange(50))
  changed = np.flatnonzero(moved != toy.logit(start, jnp.arange(50)))
  assert set(toy.task.source[changed].tolist()) == {2} and len(changed) > 9
  rate = toy.solve_rate(start)
  by_skill = [float(rate[toy.task.source == k].mean()) for k in range(4)]
  assert by_skill == sorted(by_skill, reverse=True)
  assert by_skill[0] > 0.5 and by_skill[-1] < 0.02
  # No coordinate is common to two skills.
  gram = toy.task.feature @ toy.task.feature.T
  apart = toy.task.source[:, None] != toy.task.source[None, :]
  assert np.all(gram[apart] == 0)


def test_mean_field_spills_over_to_the_cluster():
  toy = population.mean_field(
    40, clusters=4, spill=0.25, sharpness=2.0, num_eval=10
  )
  start = toy.policy.init(jax.random.key(0))
  grad = jax.grad(lambda p: toy.logit(p, jnp.int32(5)))(start)
  step = jax.tree.map(lambda p, g: p + g, start, grad)
  moved = toy.logit(step, jnp.arange(50)) - toy.logit(start, jnp.arange(50))
  # s^2 = 4 of its own, 4 * 0.25 in its cluster 5 % 4, 0 elsewhere.
  expected = np.where(np.arange(50) % 4 == 1, 1.0, 0.0)
  expected[5] = 4.0
  np.testing.assert_allclose(moved, expected, atol=2e-6)


@pytest.mark.parametrize(
  "make, words",
  [
    (lambda: population.logistic(0), "num_prompts=0"),
    (lambda: population.logistic(8, sharpness=0.0), "sharpness=0.0"),
    (lambda: population.logistic(8, num_eval=-1), "num_eval=-1"),
    (lambda: population.skills(4, 8), "skills=8"),
    (lambda: population.skills(8, 2, shared=0.0), "shared=0.0"),
    (lambda: population.mean_field(8, spill=1.5), "spill=1.5"),
    (lambda: population.mean_field(8, clusters=0), "clusters=0"),
  ],
)
def test_bad_numbers_are_refused(make, words):
  with pytest.raises(ValueError, match=words):
    make()


# --- the training step

TOY = population.logistic()
WIDE = population.logistic(8192)
P, ROWS = 64, 512


def settled(learning_rate, norm):
  """SGD at a fixed rate, or of a fixed norm where its state says so."""
  fixed, unit = optax.sgd(learning_rate), train.unit_norm(norm)

  def update(grads, state, params=None):
    plain, _ = fixed.update(grads, fixed.init(params), params)
    equal, _ = unit.update(plain, unit.init(params), params)
    pick = functools.partial(jnp.where, state["unit"])
    return jax.tree.map(pick, equal, plain), state

  return optax.GradientTransformation(
    lambda params: {"unit": jnp.zeros((), bool)}, update
  )


@functools.cache
def prepared(name):
  """(seed, unit) -> state, and the jitted step of a recipe."""
  still = name == "pilot_commit"
  toy, learning_rate = (WIDE, 0.0) if still else (TOY, 0.01)
  sizes = types.Sizes(
    num_ids=len(toy.task.grade),
    prompts=P,
    rows=ROWS,
    prompt_length=1,
    response_length=1,
  )
  settings = train.Settings(
    rollout.sampler(1.0), rollout.stops(toy.task.stop_tokens), jnp.int32(1)
  )
  rules, optimiser = getattr(recipes, name)(sizes), settled(learning_rate, 0.03)
  whole = train.fused(
    train.make_step(
      rules, toy.task, toy.policy, optimiser, sizes, slots=ROWS, micro_rows=ROWS
    ),
    toy.task,
  )

  def start(seed, unit):
    key = jax.random.key(seed)
    state = train.init_state(rules, toy.policy, optimiser, sizes, key)
    policy = state.learners["policy"].replace(
      opt_state={"unit": jnp.bool_(unit)}
    )
    return state.replace(learners={"policy": policy})

  def step(state):
    state, output = whole(state, toy.task.data, settings)
    rate = toy.solve_rate(state.learners["policy"].params)
    return state, output, jnp.mean(rate[: len(toy.task.train_pool)])

  return start, jax.jit(step)


@functools.cache
def rollouts_needed(name, unit, seeds=3):
  """Mean over seeds of the rollouts to a mean solve rate of 0.8."""
  start, step = prepared(name)
  needed = []
  for seed in range(seeds):
    state, spent, success = start(seed, unit), [], []
    while not success or success[-1] < 0.8:
      state, output, mean = step(state)
      spent.append(int(output.counts.sum()))
      success.append(float(mean))
    needed.append(
      population.rollouts_to_target(
        np.array(spent), np.array(success, np.float32), 0.8
      )
    )
  return np.mean(needed)


def test_a_step_is_the_gradient_of_its_groups():
  start, step = prepared("vigor")
  before = start(3, False)
  after, output, _ = step(before)
  spent = population.gather(
    output.outcome.reward,
    output.rollouts.group,
    output.rollouts.valid,
    num_groups=P,
  )
  np.testing.assert_array_equal(spent.count, output.counts)
  ascent = population.policy_gradient(
    TOY, before.learners["policy"].params, output.prompts.id, spent
  )
  moved = after.learners["policy"].params["w"]
  np.testing.assert_allclose(moved, 0.01 * ascent["w"], rtol=1e-4, atol=1e-8)
  assert float(output.metrics["mixed_rollout_share"]) == pytest.approx(
    float(population.mixed_share(spent))
  )


def test_trap_at_a_fixed_rate_larger_steps_look_like_less_work():
  np.testing.assert_allclose(rollouts_needed("uniform", False), 106e3, rtol=0.1)
  np.testing.assert_allclose(rollouts_needed("vigor", False), 63e3, rtol=0.1)


def test_trap_at_equal_norms_nothing_is_gained():
  uniform, vigor = (
    rollouts_needed("uniform", True),
    rollouts_needed("vigor", True),
  )
  np.testing.assert_allclose(uniform, 25.1e3, rtol=0.1)
  np.testing.assert_allclose(vigor, 25.6e3, rtol=0.1)
  # Five standard errors of the difference of two means of three, sd 0.6e3.
  assert abs(uniform - vigor) < 5 * 0.6e3 * np.sqrt(2 / 3)


def test_pilots_and_commits_find_more_mixed_groups_than_equal_groups():
  """At fixed solve rates; rejected pilots are spent too."""
  start, step = prepared("pilot_commit")
  state, spent, useful = start(0, False), 0, 0
  for _ in range(100):
    state, output, _ = step(state)
    rows = output.rollouts
    groups = population.gather(
      output.outcome.reward, rows.group, rows.valid, num_groups=P
    )
    committed = population.mixed(groups) & (groups.count == 16)
    useful += int(jnp.sum(jnp.where(committed, groups.count, 0)))
    spent += int(output.counts.sum())
  # 3200 prompts of which 0.29 are useful: the share's sd is below 0.01.
  assert abs(useful / spent - 0.624) < 5 * 0.01
  assert useful / spent > 0.517 + 0.05
