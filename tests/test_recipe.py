"""Wiring by names: what is passed, what is refused, and with which words."""

import functools
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import (
  advantage,
  allocate,
  keep,
  numerics,
  objective,
  recipe,
  recipes,
  replay,
  reward,
  select,
  trust,
  types,
)

UNIFORM = recipe.Recipe("test", allocate.uniform())
MEAN = objective.aggregate.token_mean


def refused(words, **changes):
  """The recipe with these changes is refused, with all of these words."""
  with pytest.raises(ValueError) as error:
    recipe.check(UNIFORM._replace(**changes))
  for word in words:
    assert word in str(error.value), (word, str(error.value))


def method(init=None, apply=None, update=None):
  nothing = lambda state: state  # noqa: E731
  return types.Method(init, apply or nothing, update or nothing)


def asks_for(name):
  """A function with one argument of that name."""

  def asks(*_):
    return None

  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  asks.__signature__ = inspect.Signature([inspect.Parameter(name, kind)])
  return asks


# --- what is refused


def test_a_name_that_is_no_column():
  def estimator(rewards, group):
    return rewards

  refused(
    ["estimator", "'rewards'", "no column", "'reward'", "'num_groups'"],
    advantage=(estimator,),
  )


def test_a_hyper_parameter_that_is_not_bound():
  refused(
    ["reward.overlong", "'limit'", "or get a default"],
    reward=(reward.overlong,),
  )
  bound = functools.partial(reward.overlong, limit=6, buffer=2)
  recipe.check(UNIFORM._replace(reward=(bound,)))


@pytest.mark.parametrize(
  "family, name, maker",
  [
    ("select", "reward", "the verifier"),
    ("select", "waiting", "replay method"),
    ("allocate", "reward", "the verifier"),
    ("allocate", "num_groups", "the step"),
    ("evidence", "old_logp", "a scoring pass"),
    ("reward", "adv", "advantage chain"),
    ("keep", "logp", "the learner"),
    ("keep", "num", "the step"),
    ("advantage", "anchor", "trust"),
    ("advantage", "tally", "evidence of this step"),
    ("mixture", "stats", "PromptStats"),
    ("keep", "quota", "mixture's weights"),
    ("keep_loss", "low", "trust"),
    ("trust", "logp", "the learner"),
    ("trust", "key", "the step"),
  ],
)
def test_a_name_that_is_not_made_yet(family, name, maker):
  fn = asks_for(name)
  places = {
    "allocate": UNIFORM.allocate._replace(counts=fn),
    "evidence": fn,
    "mixture": fn,
  }
  refused(
    [f"'{name}'", f"not made when {family} runs", maker, "may ask for"],
    **{family: places.get(family, (fn,))},
  )


def test_losses_and_aggregates_have_their_own_names():
  def waits(logp, waiting):
    return logp, {}

  loss = types.Loss("policy", waits, 1.0, MEAN)
  refused(["'waiting'", "not made when losses runs"], losses=(loss,))

  def looks(mask, logp):
    return mask

  loss = types.Loss("policy", objective.reinforce, 1.0, looks)
  refused(["'logp'", "not made when aggregate runs"], losses=(loss,))


def test_a_reference_is_asked_for():
  refused(
    ["reward.kl_penalty needs ref_logp", "reference=True"],
    reward=(reward.kl_penalty,),
  )
  recipe.check(UNIFORM._replace(reward=(reward.kl_penalty,), reference=True))


def test_waiting_needs_replay():
  refused(
    ["keep.committed needs waiting", "replay method"], keep=(keep.committed,)
  )
  recipe.check(
    UNIFORM._replace(keep=(keep.committed,), replay=replay.pilots(groups=1))
  )


def test_open_arguments():
  def everything(*columns):
    return columns

  def anything(reward, **others):
    return reward

  refused(["everything takes *columns", "name"], advantage=(everything,))
  refused(["anything takes *others", "name"], advantage=(anything,))


def test_k1_as_a_loss():
  fn = functools.partial(objective.kl, estimator=numerics.k1)
  refused(
    ["loss 'near' uses k1", "k2 or k3", "reward.kl_penalty"],
    losses=(types.Loss("near", fn, 0.1, MEAN),),
    reference=True,
  )
  for estimator in (numerics.k2, numerics.k3):
    fn = functools.partial(objective.kl, estimator=estimator)
    loss = types.Loss("near", fn, 0.1, MEAN)
    recipe.check(UNIFORM._replace(losses=(loss,), reference=True))


@pytest.mark.parametrize("name", ["epochs", "minibatches"])
def test_numbers_of_optimiser_steps(name):
  refused([f"{name}=0", "at least 1"], **{name: 0})


@pytest.mark.parametrize("chain", ["select", "advantage", "losses"])
def test_chains_that_must_not_be_empty(chain):
  refused([f"has no {chain}"], **{chain: ()})


def test_a_transform_cannot_stand_first():
  def scale(adv):
    return adv

  refused(["scale", "estimator before it"], advantage=(scale,))
  recipe.check(UNIFORM._replace(advantage=(advantage.rloo, scale)))


def test_all_but_the_last_selection_bind_their_number():
  refused(
    ["select.random is not the last", "num=..."],
    select=(select.random, select.vade),
  )
  half = functools.partial(select.random, num=16)
  recipe.check(UNIFORM._replace(select=(half, select.vade)))


def test_memory_only_where_the_step_keeps_one():
  refused(["trust holds a Method", "advantage"], trust=(method(),))

  def forgetful(state, reward):
    return reward

  refused(["forgetful", "'state'", "no column"], advantage=(forgetful,))


def test_a_method_is_checked_as_a_whole():
  def apply(state, reward):
    return reward, state

  def too_early(state, adv):
    return adv, state

  def update(state, adv, old_logp, *, step):
    return state

  def too_late(state, logp):
    return state

  ok = method(apply=apply, update=update)
  recipe.check(UNIFORM._replace(advantage=(ok,)))
  refused(
    ["too_early", "'adv'", "not made when reward runs"],
    reward=(method(apply=too_early, update=update),),
  )
  refused(
    ["too_late", "'logp'", "not made when update runs"],
    advantage=(method(apply=apply, update=too_late),),
  )


# --- what is read off a recipe


def test_needs():
  assert recipe.needs(UNIFORM) >= {"reward", "group", "valid", "old_logp"}
  assert "ref_logp" not in recipe.needs(UNIFORM)
  assert recipe.needs(UNIFORM) <= set(types.COLUMNS)
  plain = types.Loss("policy", objective.reinforce, 1.0, MEAN)
  fresh = UNIFORM._replace(trust=(), losses=(plain,))
  assert "old_logp" not in recipe.needs(fresh)
  kept = UNIFORM._replace(reward=(reward.kl_penalty,), reference=True)
  assert "ref_logp" in recipe.needs(kept)

  def update(state, entropy):
    return state

  def apply(state, adv):
    return adv, state

  chain = (advantage.grpo, method(apply=apply, update=update))
  assert "entropy" in recipe.needs(UNIFORM._replace(advantage=chain))


def test_needs_leaves_defaults_alone():
  def estimator(reward, *, entropy=None):
    return reward

  assert "entropy" not in recipe.needs(UNIFORM._replace(advantage=(estimator,)))


def test_call_passes_columns_specials_and_defaults():
  def fn(reward, group, *, valid, num_groups, key=None, step=7, scale=2):
    return reward, group, valid, num_groups, key, step, scale

  columns = {"reward": "r", "group": "g", "valid": "v", "mask": "m"}
  out = recipe.call(fn, columns, num_groups=3, step=5)
  assert out == ("r", "g", "v", 3, None, 5, 2)
  out = recipe.call(functools.partial(fn, scale=9), columns, num_groups=3)
  assert out == ("r", "g", "v", 3, None, 7, 9)


def test_call_takes_any_kind_of_argument():
  def fn(num_groups, reward, scale=2, step=7, *, valid):
    return num_groups, reward, scale, step, valid

  columns = {"reward": "r", "valid": "v", "scale": "a column"}
  assert recipe.call(fn, columns, num_groups=3) == (3, "r", 2, 7, "v")
  assert recipe.call(fn, columns, num_groups=3, step=1)[3] == 1
  recipe.check(UNIFORM._replace(advantage=(fn,)))


def test_call_never_overrides_a_hyper_parameter_with_a_column():
  """`low` is a column, and a hyper-parameter of trust.clip."""
  columns = {
    "old_logp": jnp.zeros((1, 1)),
    "mask": jnp.ones((1, 1), bool),
    "low": jnp.full((1, 1), 0.9),
    "high": jnp.full((1, 1), 1.1),
  }
  made = recipe.call(trust.clip, columns, num_groups=1)
  np.testing.assert_allclose(made.low, 0.8)


def test_stateful_slots_are_by_family_and_place():
  one, two = method(), method()
  rules = UNIFORM._replace(
    select=(one,), advantage=(advantage.grpo, two), keep_loss=(one,)
  )
  assert recipe.stateful(rules) == [
    ("select.0", one),
    ("advantage.1", two),
    ("keep_loss.0", one),
  ]


def test_labels():
  class Callable:
    def __call__(self, reward):
      return reward

  assert recipe.label(advantage.grpo) == "advantage.grpo"
  bound = functools.partial(functools.partial(trust.clip, low=0.1), high=0.3)
  assert recipe.label(bound) == "trust.clip"
  assert recipe.label(Callable()).endswith("Callable")
  assert recipe.label(jax.jit(select.vade)) == "select.vade"


def test_describe_names_every_function_and_what_is_paid():
  rules = recipes.pilot_commit(
    types.Sizes(40, 8, 56, 5, 6), pilot=4, commit=12
  )._replace(reward=(reward.kl_penalty,), reference=True, minibatches=3)
  text = recipe.describe(rules)
  for words in (
    "recipe pilot_commit",
    "select     select.random",
    "reward     reward.kl_penalty",
    "keep       keep.committed",
    "advantage  advantage.grpo",
    "trust      trust.clip",
    "losses     objective.ppo_clip",
    "aggregate  objective.aggregate.token_mean",
    "replay     on",
    "['old_logp', 'ref_logp']",
    "1 epochs x 3",
  ):
    assert words in text, (words, text)
  plain = types.Loss("policy", objective.reinforce, 1.0, MEAN)
  free = UNIFORM._replace(trust=(), losses=(plain,))
  assert "before the update: none" in recipe.describe(free)


def by_group(old_logp, mask, group):
  return trust.clip(old_logp, mask)


def by_weight(mask, weight):
  return mask * weight


def of_loss(**changes):
  return {"losses": (UNIFORM.losses[0]._replace(**changes),)}


@pytest.mark.parametrize(
  "changes, scored",
  [
    # Trust and losses alone: the update's own pass has it.
    ({}, ()),
    ({"trust": (trust.clip, trust.sequence_weight)}, ()),
    (of_loss(fn=asks_for("old_logp")), ()),
    # Several optimiser steps part the policy from the old one.
    ({"epochs": 2}, ("old_logp",)),
    ({"minibatches": 2}, ("old_logp",)),
    # Before the update, or over rows that a micro-batch does not hold.
    ({"trust": (by_group,)}, ("old_logp",)),
    ({"trust": (trust.clip, asks_for("num_groups"))}, ("old_logp",)),
    ({"keep": (asks_for("old_logp"),)}, ("old_logp",)),
    ({"keep_loss": (asks_for("old_logp"),)}, ("old_logp",)),
    ({"advantage": (asks_for("old_logp"),)}, ("old_logp",)),
    ({"reward": (method(update=asks_for("old_logp")),)}, ("old_logp",)),
    (of_loss(aggregate=by_weight), ("old_logp",)),
    (of_loss(aggregate=asks_for("old_logp")), ("old_logp",)),
    # What trust makes without old_logp is there before.
    ({"trust": (asks_for("mask"),)} | of_loss(aggregate=by_weight), ()),
    (
      {"trust": (asks_for("group"),)} | of_loss(fn=asks_for("old_logp")),
      (),
    ),
    # The reference is another policy.
    ({"reference": True, "keep": (asks_for("ref_logp"),)}, ("ref_logp",)),
  ],
)
def test_old_log_probs_are_scored_where_they_are_needed_before(changes, scored):
  rules = UNIFORM._replace(**changes)
  assert recipe.passes(rules) == scored
  words = f"before the update: {list(scored) or 'none'}"
  assert words in recipe.describe(rules)


# --- strings


@pytest.mark.parametrize(
  "name, expected",
  [
    ("advantage.rloo", advantage.rloo),
    ("allocate.vigor", allocate.vigor),
    ("objective.gspo", objective.gspo),
    ("objective.aggregate.prompt_mean", objective.aggregate.prompt_mean),
    ("recipes.vade", recipes.vade),
    ("replay.pilots", replay.pilots),
    ("trust.token_mask", trust.token_mask),
  ],
)
def test_resolve(name, expected):
  assert recipe.resolve(name) is expected


@pytest.mark.parametrize("family", recipe.FAMILIES)
def test_unknown_methods_list_the_alternatives(family):
  with pytest.raises(ValueError, match=f"'{family}.nope' does not exist") as e:
    recipe.resolve(f"{family}.nope")
  listed = re.findall(r"'(\w+)'", str(e.value).split(" has ")[1])
  assert listed and all(recipe.resolve(f"{family}.{n}") for n in listed)


@pytest.mark.parametrize(
  "name", ["rloo", "train.update", "", "trust.merge.x", "advantage._grpo.grpo"]
)
def test_unknown_families_list_the_alternatives(name):
  with pytest.raises(ValueError, match=r"write family\.function.*'advantage'"):
    recipe.resolve(name)


@pytest.mark.parametrize("name", ["trust.merge", "trust.types", "keep.chex"])
def test_only_methods_are_resolved(name):
  with pytest.raises(ValueError, match="does not exist"):
    recipe.resolve(name)
