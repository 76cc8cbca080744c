"""Every recipe runs on its sizes, and differs from the baseline as it says."""

import functools
import inspect

import pytest

from jaxroll import (
  advantage,
  objective,
  posterior,
  recipe,
  recipes,
  trust,
)
from tests.recipes.cases import CASES

NAMES = sorted(recipes.__all__)


def rows_needed(rules, sizes):
  return rules.allocate.rounds(sizes.rows, sizes.prompts)


def test_every_recipe_has_a_case():
  assert sorted(CASES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_is_found_and_checked(name):
  case = CASES[name]
  made = recipe.resolve(f"recipes.{name}")(case.sizes())
  assert made.name == name
  recipe.check(made)
  if case.select is not None:
    assert made.select[-1] is case.select


@pytest.mark.parametrize("name", NAMES)
def test_plan_and_least_budget(name):
  case = CASES[name]
  made = case.make(case.sizes())
  assert rows_needed(made, case.sizes()) == case.rounds
  short = case.sizes(case.rows - 1)
  with pytest.raises(ValueError, match=rf"{short.rows}\b.*(raise|least)"):
    rows_needed(case.make(short), short)


@pytest.mark.parametrize("name", NAMES)
def test_carried_rows(name):
  case = CASES[name]
  made = case.make(case.sizes())
  carried = made.replay.waiting(case.sizes())[1] if made.replay else 0
  assert carried == case.carried


@pytest.mark.parametrize("name", NAMES)
def test_everything_not_named_is_the_baseline(name):
  """Comparisons at equal cost compare one thing: what a paper leaves, stays."""
  case = CASES[name]
  made, baseline = (x(case.sizes()) for x in (case.make, recipes.uniform))
  assert baseline.advantage == (advantage.grpo,)
  assert baseline.trust == (trust.clip,)
  assert [loss.fn for loss in baseline.losses] == [objective.ppo_clip]
  for field in set(recipe.Recipe._fields) - {"name", "allocate"}:
    same = getattr(made, field) == getattr(baseline, field)
    assert same == (field not in case.changes), field
  counts = made.allocate.counts, baseline.allocate.counts
  assert (counts[0] is counts[1]) == ("allocate" not in case.changes)


@pytest.mark.parametrize("name", NAMES)
def test_signature(name):
  """(sizes, *, hyper-parameters with defaults)"""
  first, *rest = inspect.signature(getattr(recipes, name)).parameters.values()
  assert first.name == "sizes"
  for p in rest:
    assert p.kind is p.KEYWORD_ONLY and p.default is not p.empty, p


# --- pilot_commit: allocator and buffer take the same numbers


@pytest.mark.parametrize("rows, groups", [(40, 1), (47, 1), (56, 3), (999, 8)])
def test_groups_fill_the_budget(rows, groups):
  """rows >= 8 * 4 + groups * (12 - 4)"""
  sizes = CASES["pilot_commit"].sizes(rows)
  made = recipes.pilot_commit(sizes)
  assert made.replay.waiting(sizes) == (groups, 4 * groups)
  assert rows_needed(made, sizes) == (32 + 8 * groups,)


def test_pilots_of_allocator_and_buffer_agree():
  sizes = CASES["pilot_commit"].sizes(64)
  made = recipes.pilot_commit(sizes, pilot=2, commit=6, groups=5)
  assert made.replay.waiting(sizes) == (5, 2 * 5)
  assert rows_needed(made, sizes) == (5 * 6 + 3 * 2,)


def test_thresholds_reach_the_buffer():
  with pytest.raises(ValueError, match="low=0.9, up=0.25"):
    recipes.pilot_commit(CASES["pilot_commit"].sizes(), low=0.9)
  with pytest.raises(ValueError, match="max_age=0"):
    recipes.pilot_commit(CASES["pilot_commit"].sizes(), max_age=0)


def test_too_small_a_budget_says_how_much_is_needed():
  sizes = CASES["pilot_commit"].sizes(39)
  with pytest.raises(ValueError, match=r"rows=39 .*at least 40"):
    recipes.pilot_commit(sizes)


# --- uniform: nothing but equal groups


def test_uniform_is_the_default_recipe():
  sizes = CASES["uniform"].sizes(24)
  made = recipes.uniform(sizes)
  default = recipe.Recipe("uniform", made.allocate)
  assert made == default
  assert rows_needed(made, sizes) == (24,)


# --- vade: two scales of forgetting


def test_vade_binds_its_decays():
  made = recipes.vade(CASES["vade"].sizes(), local=0.25, decay=0.75)
  assert isinstance(made.observe, functools.partial)
  assert made.observe.func is posterior.observe
  assert made.observe.keywords == {"local": 0.25, "decay": 0.75}


# --- vigor: its numbers reach the allocator


def test_vigor_passes_its_numbers():
  sizes = CASES["vigor"].sizes(100)
  made = recipes.vigor(sizes, m0=2, rounds=2, gamma=3, alpha=0.25)
  assert rows_needed(made, sizes) == (8 * 2, 2 * 6)
