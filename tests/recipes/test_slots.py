"""Recipes that allocate at the slot: their numbers reach the rule."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate, posterior, recipes
from tests.recipes.cases import CASES

NAMES = ("slot_elimination", "slot_mixed", "slot_variance")


@pytest.mark.parametrize("name", NAMES)
def test_numbers_reach_the_rule(name):
  sizes = CASES[name].sizes(64)
  made = getattr(recipes, name)(sizes, floor=1, cap=3)
  rule = made.allocate
  assert rule.rounds(64, 8) == (24,)
  columns = {
    "stats": posterior.init(2),
    "tally": posterior.tally_init(2),
    "counts": jnp.array([2, 3], jnp.int32),
  }
  if name == "slot_elimination":
    del columns["stats"]
  gain = np.asarray(rule.gain(**columns))
  assert np.isfinite(gain[0]) and gain[1] == -np.inf
  assert (rule.decided is None) == (name != "slot_elimination")


def test_slot_elimination_passes_on_when_a_prompt_is_done():
  done = functools.partial(allocate.until.balanced, group=4)
  sizes = CASES["slot_elimination"].sizes(64)
  rule = recipes.slot_elimination(sizes, done=done).allocate
  tally = posterior.tally_add(
    posterior.tally_init(2),
    jnp.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0], jnp.float32),
    jnp.array([0, 0, 0, 0, 1, 1], jnp.int32),
    jnp.ones(6, bool),
  )
  assert rule.decided(tally=tally).tolist() == [True, False]
