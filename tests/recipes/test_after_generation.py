"""Recipes that keep or weight rows after generation: where, and how many."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import advantage, keep, recipe, recipes, train, types
from tests.recipes.cases import CASES

SIZES = CASES["pods"].sizes(96)  # 12 rows for each of 8 prompts


def worth(made):
  """`train.value` of two groups of six: 2 of 6 and 6 of 6 right."""
  place = jnp.arange(12, dtype=jnp.int32)
  rows = {
    "reward": jnp.array([1, 0, 0, 0, 1, 0] + [1] * 6, jnp.float32),
    "group": place // 6,
    "index": place % 6,
    "length": jnp.array([5, 1, 2, 3, 4, 6] * 2, jnp.int32),
    "round": jnp.zeros(12, jnp.int32),
    "stopped": jnp.ones(12, bool),
    "valid": jnp.ones(12, bool),
    "mask": jnp.ones((12, 2), bool),
    "entropy": jnp.ones((12, 2)),
    "behaviour_logp": -jnp.ones((12, 2)),
  }
  sizes = types.Sizes(9, 2, 12, 5, 2)
  methods = {
    slot: method.init(sizes, key=jax.random.key(0))
    for slot, method in recipe.stateful(made)
  }
  specials = {"num_groups": 2, "step": jnp.int32(0), "key": jax.random.key(1)}
  out, methods = train.value(made, rows, {}, methods, specials)
  return out, methods


def trained(out):
  return out["mask"].any(axis=1).reshape(2, 6)


@pytest.mark.parametrize(
  "name, hyper, kept",
  [("pods", "n", 3), ("gfpo", "k", 4)],
)
def test_a_share_of_equal_groups_is_kept(name, hyper, kept):
  """12 rows of a group: a quarter and a third, 2 at least."""
  make = getattr(recipes, name)
  assert make(SIZES).keep[0].keywords == {hyper: kept}
  assert make(CASES[name].sizes()).keep[0].keywords == {hyper: 2}
  assert make(SIZES, **{hyper: 5}).keep[0].keywords == {hyper: 5}


def test_pods_takes_the_baseline_of_the_kept_rows():
  out, _ = worth(recipes.pods(SIZES, n=4))
  assert trained(out).sum(axis=1).tolist() == [4, 4]
  # Two right and two wrong: +-1/2 over sqrt(1/3).
  adv = np.asarray(out["adv"][:6])[np.asarray(trained(out)[0])]
  np.testing.assert_allclose(np.abs(adv), 0.866024, rtol=1e-5)


def test_gfpo_takes_the_baseline_of_the_kept_rows():
  out, _ = worth(recipes.gfpo(SIZES, k=4))
  assert trained(out)[0].tolist() == [False, True, True, True, True, False]
  # One right of four: 3/4 over 1/2.
  np.testing.assert_allclose(out["adv"][4], 1.5, rtol=1e-5)
  assert out["adv"][0] == 0.0


def test_gfpo_by_reward_a_token():
  made = recipes.gfpo(SIZES, by=keep.efficient, k=2)
  out, _ = worth(made)
  assert trained(out)[0].tolist() == [True, False, False, False, True, False]


@pytest.mark.parametrize(
  "make", [recipes.cbs, recipes.top_advantage, recipes.difficulty_band]
)
def test_masked_after_the_advantages_leaves_them(make):
  out, _ = worth(make(SIZES))
  plain, _ = worth(recipes.uniform(SIZES))
  np.testing.assert_array_equal(out["adv"], plain["adv"])
  np.testing.assert_array_equal(out["valid"], plain["valid"])


def test_cbs_carries_its_choice():
  made = recipes.cbs(SIZES, k=2)
  out, methods = worth(made)
  assert trained(out).sum(axis=1).tolist() == [2, 2]
  assert int(methods["keep_loss.0"].last_chosen.sum()) == 4


def test_top_advantage_halves_the_step():
  out, _ = worth(recipes.top_advantage(SIZES))
  assert trained(out).sum(axis=1).tolist() == [6, 0]


@pytest.mark.parametrize(
  "make", [recipes.difficulty_band, recipes.dynamic_sampling, recipes.roll]
)
def test_filters_drop_the_group_without_contrast(make):
  out, _ = worth(make(SIZES))
  assert trained(out).all(axis=1).tolist() == [True, False]


@pytest.mark.parametrize(
  "name, hyper",
  [
    ("softmax_weight", {"temperature": 2.0}),
    ("bell_weight", {"target": 0.4, "width": 0.3}),
  ],
)
def test_weights_stand_after_the_estimator(name, hyper):
  made = getattr(recipes, name)(SIZES, **hyper)
  estimator, transform = made.advantage
  assert estimator is advantage.grpo
  assert isinstance(transform, functools.partial)
  assert transform.func is getattr(advantage, name)
  assert transform.keywords == hyper
  out, _ = worth(made)
  plain, _ = worth(recipes.uniform(SIZES))
  ratio = np.asarray(out["adv"][:6] / plain["adv"][:6])
  assert (ratio > 1).any() and (out["adv"][6:] == 0).all()
