"""population.simulate: runs without tokens, many seeds, a million prompts."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxroll import allocate, select, train, types
from jaxroll.evaluate import population

SKILLS = population.skills(256, 4, num_eval=64)


def make(toy=SKILLS, chosen=select.random, allocator=None, **sizes):
  return population.simulate(
    toy,
    chosen,
    allocator or allocate.vigor(),
    optax.chain(train.unit_norm(), optax.sgd(0.1)),
    **{"prompts": 32, "budget": 256, **sizes},
  )


def test_skills_are_learned_one_after_the_other():
  run = make()

  def whole(key):
    def step(state, _):
      state, report = run.step(state)
      return state, (report, SKILLS.solve_rate(state.params))

    return jax.lax.scan(step, run.init(key), None, length=200)[1]

  report, rate = jax.jit(whole)(jax.random.key(0))
  assert (report.rollouts == 256).all()
  source = SKILLS.task.source
  reached = [
    int(np.argmax(np.asarray(rate[:, source == k].mean(axis=1)) > 0.8))
    for k in range(4)
  ]
  # The easiest is nearly there at once; each next takes longer.
  assert reached == sorted(reached) and reached[0] + 20 < reached[-1]
  assert report.success[-1] > 0.9 and report.held_out[-1] > 0.9


def test_step_keeps_beliefs_and_reports_its_rollouts():
  run = make()
  before = run.init(jax.random.key(0))
  after, report = jax.jit(run.step)(before)
  ids, spent = report.ids, report.spent
  assert len(set(ids.tolist())) == 32 and ids.max() < 256
  np.testing.assert_allclose(after.stats.alpha[ids], 1 + spent.success)
  np.testing.assert_allclose(
    after.stats.beta[ids], 1 + spent.count - spent.success
  )
  assert float(after.stats.alpha.sum()) == 320 + float(spent.success.sum())
  assert (after.stats.seen[ids] == 0).all() and int(after.step) == 1
  assert report.mixed_share == population.mixed_share(spent)
  norm = optax.global_norm(
    jax.tree.map(jnp.subtract, after.params, before.params)
  )
  np.testing.assert_allclose(norm, 0.1, rtol=1e-5)


def test_seeds_may_be_mapped():
  run = make(population.mean_field(200, clusters=8, num_eval=8))
  keys = jax.random.split(jax.random.key(0), 3)
  mapped = jax.jit(jax.vmap(lambda key: run.step(run.init(key))[1]))(keys)
  single = jax.jit(lambda key: run.step(run.init(key))[1])
  for seed, key in enumerate(keys):
    alone = single(key)
    np.testing.assert_array_equal(mapped.ids[seed], alone.ids)
    np.testing.assert_array_equal(
      mapped.spent.success[seed], alone.spent.success
    )
    np.testing.assert_allclose(mapped.success[seed], alone.success, rtol=1e-5)


def test_selectors_with_a_memory_see_how_the_step_went():
  def apply(state, stats, pool, *, num, key):
    del stats, key
    return (pool[:num] + state) % 256, state

  def update(state, ids, reward, group, valid, *, num_groups):
    assert ids.shape == (num_groups,) and reward.shape == group.shape
    return state + jnp.sum(valid, dtype=jnp.int32)

  memory = types.Method(lambda sizes, *, key: jnp.int32(0), apply, update)
  run = make(chosen=memory, prompts=32)
  step = jax.jit(run.step)
  state, report = step(run.init(jax.random.key(0)))
  assert report.ids.tolist() == list(range(32)) and int(state.memory) == 256


def test_what_cannot_run_is_refused():
  with pytest.raises(ValueError, match="prompts=257"):
    make(prompts=257)
  with pytest.raises(ValueError, match="budget"):
    make(allocator=allocate.uniform(), budget=16)


def test_a_million_prompts_take_well_under_a_second_a_step():
  toy = population.mean_field(10**6)
  run = make(toy, prompts=1024, budget=8192)
  step = jax.jit(run.step, donate_argnums=0)
  state = jax.jit(run.init)(jax.random.key(0))
  state, first = step(state)
  seconds = []
  for _ in range(3):
    begun = time.perf_counter()
    state, report = jax.block_until_ready(step(state))
    seconds.append(time.perf_counter() - begun)
  # 0.02 s on an idle machine of two cores.
  assert min(seconds) < 0.5
  assert first.success < report.success < 1
