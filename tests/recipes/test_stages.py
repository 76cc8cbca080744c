"""Recipes that draw in stages: the papers' numbers, where they fit."""

import functools

import pytest

from jaxroll import advantage, allocate, keep, recipe, recipes
from jaxroll.types import Sizes


def sizes(rows):
  """`rows` for each of 8 prompts."""
  return Sizes(40, 8, 8 * rows, 5, 6)


@pytest.mark.parametrize(
  "make, rows, plan",
  [
    # The papers' own sizes, by prompt.
    (recipes.aero, 16, (8, 2, 2, 2, 2)),
    (recipes.ar3po, 16, (4, 4, 4, 4)),
    (recipes.bar, 32, (4,) * 8),
    (recipes.dapo, 32, (16, 16)),
    (recipes.dars_et, 32, (8, 24)),
    (recipes.dars_hw, 64, (8, 56)),
    (recipes.e3, 8, (8,)),
    (recipes.elimination, 32, (8, 8, 8, 8)),
    (recipes.far, 16, (8, 4, 4)),
    # Half or a quarter of them.
    (recipes.aero, 8, (4, 2, 2)),
    (recipes.ar3po, 8, (2, 2, 2, 2)),
    (recipes.bar, 8, (2, 2, 2, 2)),
    (recipes.dapo, 8, (4, 4)),
    (recipes.dars_et, 8, (4, 4)),
    (recipes.dars_hw, 8, (4, 4)),
    (recipes.elimination, 8, (2, 2, 2, 2)),
    (recipes.far, 8, (4, 2, 2)),
    # More than they use is left.
    (recipes.aero, 99, (8, 2, 2, 2, 2)),
    (recipes.dapo, 999, (16,) * 10),
    (recipes.dars_et, 99, (8, 24)),
  ],
)
def test_plan(make, rows, plan):
  made = make(sizes(rows))
  recipe.check(made)
  assert made.allocate.rounds(8 * rows, 8) == tuple(8 * n for n in plan)


def test_numbers_reach_the_functions():
  made = recipes.aero(
    sizes(16), k=2.0, threshold=0.25, prior=(3.0, 1.0), n_post=1
  )
  (kept,), (thinned,) = made.keep, made.keep_loss
  assert (kept.func, kept.keywords) == (
    keep.aero,
    {"k": 2.0, "threshold": 0.25},
  )
  assert (thinned.func, thinned.keywords) == (keep.thin_flat, {"n": 1})
  assert made.advantage[0].func is advantage.posterior_baseline
  assert made.advantage[0].keywords == {"prior": (3.0, 1.0)}
  (balanced,) = recipes.bar(sizes(8)).keep
  assert (balanced.func, balanced.keywords) == (keep.balanced, {"size": 4})
  for make in (recipes.dars_et, recipes.dars_hw):
    made = make(sizes(8), upper=0.75)
    (kept,) = made.keep
    assert kept.func is keep.mean_between
    assert kept.keywords == {"low": 0.0, "high": 0.75}
    assert made.advantage == (advantage.dr_grpo,)
  assert recipes.far(sizes(8)).keep == (keep.ready,)
  assert recipes.dapo(sizes(8)).keep == (keep.mixed,)


def test_numbers_of_the_allocators_can_be_given():
  two = functools.partial(allocate.until.balanced, group=2)
  for made, plan in (
    (recipes.aero(sizes(8), total=6, extra=3), (3, 3)),
    (recipes.ar3po(sizes(8), k=1, stages=3), (1, 1, 1)),
    (recipes.bar(sizes(8), group=2, chunk=3, most=5), (3, 2)),
    (recipes.dapo(sizes(8), n=3, refills=1), (3, 3)),
    (recipes.dars_et(sizes(8), n=2, most=5), (2, 3)),
    (recipes.dars_hw(sizes(8), n=2, most=6), (2, 4)),
    (recipes.e3(sizes(8), low=1, high=6, widen=0), (6,)),
    (recipes.elimination(sizes(8), chunk=1, rounds=2, done=two), (1, 1)),
    (recipes.far(sizes(8), most=6), (3, 1, 1, 1)),
  ):
    assert made.allocate.rounds(64, 8) == tuple(8 * n for n in plan)
