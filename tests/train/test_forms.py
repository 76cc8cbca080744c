"""Steps scanned, and several seeds at once, are the steps one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.train import tiny

STEPS = 3


@pytest.fixture(scope="module")
def scanned():
  """Three steps under scan, of two seeds under map: states, outputs."""
  rules = tiny.RECIPES["uniform"](tiny.SIZES)
  step = tiny.fused(rules)

  def steps(state):
    return jax.lax.scan(
      lambda s, _: step(s, tiny.TASK.data, tiny.SETTINGS),
      state,
      length=STEPS,
    )

  seeds = [tiny.state(rules, seed=seed) for seed in (0, 1)]
  stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *seeds)
  return jax.jit(lambda states: jax.lax.map(steps, states))(stacked)


@pytest.mark.parametrize("seed", [0, 1])
def test_scan_and_map_change_nothing(scanned, seed):
  run = tiny.run("uniform")
  rules = tiny.RECIPES["uniform"](tiny.SIZES)
  states, outputs = jax.tree.map(lambda x: x[seed], scanned)
  state = tiny.state(rules, seed=seed)
  for number in range(STEPS):
    state, output = run.step(state, tiny.TASK.data, tiny.SETTINGS)
    for name in ("tokens", "length", "group", "index"):
      np.testing.assert_array_equal(
        getattr(outputs.rollouts, name)[number],
        getattr(output.rollouts, name),
      )
    np.testing.assert_array_equal(outputs.prompts.id[number], output.prompts.id)
  assert tiny.same(states.stats, state.stats)
  assert int(states.step) == STEPS
  tiny.close(states.learners, state.learners)


def test_seeds_differ(scanned):
  _, outputs = scanned
  assert (outputs.rollouts.tokens[0] != outputs.rollouts.tokens[1]).any()
  assert (outputs.prompts.id[0] != outputs.prompts.id[1]).any()
