"""Recipes that choose prompts or sources: their numbers reach the method."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import (
  keep,
  mixture,
  objective,
  posterior,
  recipe,
  recipes,
  select,
  types,
)

SIZES = types.Sizes(24, 8, 64, 5, 6, num_sources=3)
SELECT = {
  "dots": select.dots,
  "epsilon_greedy": select.epsilon_greedy,
  "greso": select.greso,
  "thompson_select": select.thompson,
  "ucb": select.ucb,
}
MIXTURE = {
  "apriel": mixture.apriel,
  "d3_mopd": mixture.d3_mopd,
  "lineage": mixture.lineage,
  "reward_gap": mixture.reward_gap,
  "strata": mixture.fixed,
  "tscl": mixture.tscl,
  "ucb_mixture": mixture.ucb,
}


@pytest.mark.parametrize("name", [*SELECT, *MIXTURE])
def test_defaults_are_the_methods(name):
  """A recipe names no number that its method has otherwise."""
  method = inspect.signature((SELECT | MIXTURE)[name]).parameters
  parameters = inspect.signature(getattr(recipes, name)).parameters
  for number in list(parameters.values())[1:]:
    assert number.default == method[number.name].default, number.name


@pytest.mark.parametrize("name", MIXTURE)
def test_a_mixture_starts_and_gives_a_quota(name):
  made = getattr(recipes, name)(SIZES)
  recipe.check(made)
  assert dict(recipe.stateful(made)).keys() == {"mixture"}
  state = made.mixture.init(SIZES, key=jax.random.key(0))
  weights, _ = made.mixture.apply(
    state, step=jnp.int32(0), key=jax.random.key(0)
  )
  assert weights.shape == (3,)
  np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
  "name, number",
  [
    ("apriel", {"weights": (-1.0, 2.0)}),
    ("d3_mopd", {"jitter": 2.0}),
    ("dots", {"fresh": 2.0}),
    ("epsilon_greedy", {"epsilon": 2.0}),
    ("greso", {"hard": 2.0}),
    ("hive", {"floor": 2.0}),
    ("lineage", {"tau": 2.0}),
    ("reward_gap", {"temperature": 0.0}),
    ("strata", {"weights": (0.0, 0.0)}),
    ("thompson_select", {"gamma": 2.0}),
    ("tscl", {"temperature": 0.0}),
    ("ucb", {"scale": -1.0}),
    ("ucb_mixture", {"scale": -1.0}),
  ],
)
def test_numbers_reach_the_method(name, number):
  ((key, value),) = number.items()
  with pytest.raises(ValueError, match=key):
    getattr(recipes, name)(SIZES, **number)
  del value


def test_hive_pays_for_its_candidates_only():
  made = recipes.hive(SIZES, ratio=2)
  prior, check = made.select
  assert prior.apply.keywords == {"num": 16} and check is select.hive_check
  assert "prompt_entropy" in recipe.needs(made)


def test_dots_forgets_a_prompts_older_groups():
  made = recipes.dots(SIZES)
  assert made.observe.func is posterior.observe
  assert made.observe.keywords == {"local": 0.0}
  assert "feature" in recipe.needs(made)


def test_greso_drops_what_its_filter_let_through():
  assert recipes.greso(SIZES).keep == (keep.mixed,)


def test_moderate_and_tablegpt_bind_their_numbers():
  (fn,) = recipes.moderate(SIZES, target=0.25).select
  assert fn.func is select.moderate and fn.keywords["target"] == 0.25
  made = recipes.tablegpt(SIZES)
  (fn,) = made.select
  assert fn.func is select.stratified
  assert fn.keywords == {"share": (0.2, 0.6, 0.2)}
  assert made.trust[0].keywords == {"low": 0.2, "high": 0.28}
  assert made.losses[0].fn is objective.gspo
