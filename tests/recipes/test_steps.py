"""Every recipe is a whole training step, whose state feeds the next one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxroll import recipes, rollout, train, types
from jaxroll.evaluate import population

NAMES = sorted(recipes.__all__)
# Those with a memory, a mixture, or rows that are carried over or begun at the
# slot are run, the others traced: their parts are run by their families' tests.
RUN = ("cbs", "hive", "pilot_commit", "slot_mixed", "ucb_mixture", "aero")

POPULATION = population.skills(64, skills=4, num_eval=8)
TASK = POPULATION.task
SIZES = types.Sizes(
  num_ids=len(TASK.grade),
  prompts=8,
  rows=64,
  prompt_length=TASK.prompt_length,
  response_length=TASK.response_length,
  num_sources=4,
  num_features=train.num_features(TASK),
)
SETTINGS = train.Settings(
  rollout.sampler(1.0), rollout.stops(TASK.stop_tokens), jnp.int32(1)
)


@functools.cache
def made(name):
  rules = getattr(recipes, name)(SIZES)
  optimiser = optax.sgd(0.1)
  step = train.make_step(
    rules,
    TASK,
    POPULATION.policy,
    optimiser,
    SIZES,
    slots=64,
    micro_rows=128,
  )
  init = functools.partial(
    train.init_state, rules, POPULATION.policy, optimiser, SIZES
  )
  return train.fused(step, TASK), init


def described(tree):
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  return {
    jax.tree_util.keystr(path): (x.shape, str(x.dtype)) for path, x in leaves
  }


@pytest.mark.parametrize("name", NAMES)
def test_the_state_after_is_of_the_type_before(name):
  """Else the second step would compile anew, and a checkpoint not fit."""
  step, init = made(name)
  before = jax.eval_shape(init, jax.random.key(0))
  after, _ = jax.eval_shape(step, before, TASK.data, SETTINGS)
  assert described(after) == described(before)
  weak = [x for x in jax.tree.leaves(after) if getattr(x, "weak_type", False)]
  assert not weak


@pytest.mark.parametrize("name", RUN)
def test_steps_spend_no_more_than_the_budget(name):
  step, init = made(name)
  step = jax.jit(step, donate_argnums=0)
  state = init(jax.random.key(0))
  seen = set()
  for _ in range(4):
    state, output = step(state, TASK.data, SETTINGS)
    counts = np.asarray(output.counts)
    assert 0 < counts.sum() <= SIZES.rows
    assert counts.sum() == output.metrics["rollouts"]
    seen |= set(np.asarray(output.prompts.id).tolist())
  assert step._cache_size() == 1
  assert len(seen) > SIZES.prompts
  for leaf in jax.tree.leaves(state.learners):
    assert np.all(np.isfinite(leaf))
