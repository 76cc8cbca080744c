"""Recipes that spend by gains and beliefs: their numbers reach their parts."""

import functools

import pytest

from jaxroll import advantage, posterior, recipes, trust
from jaxroll.types import Sizes


def _sizes(rows):
  return Sizes(40, 8, rows, 5, 6)


@pytest.mark.parametrize(
  "name, rounds",
  [
    ("coba_rl", (16, 48)),
    ("dart", (64,)),
    ("neyman", (64,)),
    ("thompson", (64,)),
    # Half of the prompts with 8 rollouts each, then 8 more on average.
    ("trace", (32, 32)),
    ("v05", (32, 11, 11, 10)),
    ("xrpo", (32, 16, 16)),
  ],
)
def test_eight_rollouts_a_prompt(name, rounds):
  sizes = _sizes(64)
  made = getattr(recipes, name)(sizes)
  assert made.allocate.rounds(sizes.rows, sizes.prompts) == rounds


@pytest.mark.parametrize(
  "name, hyper, words",
  [
    ("coba_rl", {"high": 0}, "high=0"),
    ("coba_rl", {"tau": 0.0}, "tau=0.0"),
    ("coba_rl", {"kappa": -1.0}, "kappa=-1.0"),
    ("dart", {"n_max": 4, "n_min": 5}, "n_min=5, n_max=4"),
    ("dart", {"threshold": 2.0}, "threshold=2.0"),
    ("neyman", {"floor": 3, "cap": 2}, "cap=2"),
    ("thompson", {"floor": 3, "cap": 3}, "floor=3, cap=3"),
    ("trace", {"n0": 0}, "n0=0"),
    ("trace", {"share": 2.0}, "share=2.0"),
    ("trace", {"cap": 0}, "cap=0"),
    ("v05", {"k_init": 5, "k_max": 4}, "k_init=5, k_max=4"),
    ("v05", {"c": -1.0}, "c=-1.0"),
    ("v05", {"stride": 0}, "stride=0"),
    ("xrpo", {"n0": 1}, "n0=1"),
    ("xrpo", {"phases": 0}, "phases=0"),
    ("xrpo", {"lam": -1.0}, "lam=-1.0"),
    ("xrpo", {"conf": 2.0}, "conf=2.0"),
  ],
)
def test_numbers_reach_the_allocator(name, hyper, words):
  with pytest.raises(ValueError, match=words):
    getattr(recipes, name)(_sizes(64), **hyper)


def test_averages_are_decays_where_prompts_are_rolled_out():
  for make in (recipes.coba_rl, recipes.dart):
    observe = make(_sizes(64), average=0.75).observe
    assert observe.func is posterior.observe
    assert observe.keywords == {"local": 0.75}


def test_dart_corrects_for_the_sampler():
  clip, weight = recipes.dart(_sizes(64), high=0.3).trust
  assert (clip.func, clip.keywords) == (trust.clip, {"low": 0.2, "high": 0.3})
  assert (weight.func, weight.keywords) == (trust.token_weight, {"cap": 1.0})


def test_advantages():
  assert recipes.v05(_sizes(64)).advantage == (advantage.shrinkage,)
  estimator, transform = recipes.xrpo(_sizes(64), novelty=2.0).advantage
  assert estimator is advantage.grpo
  assert isinstance(transform, functools.partial)
  assert transform.func is advantage.sharpen
  assert transform.keywords == {"lam": 2.0, "kap": 0.5}
