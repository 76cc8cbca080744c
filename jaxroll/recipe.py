"""Which functions make up a method? A recipe, wired by argument names.

A recipe holds functions by family. Their arguments are named after the columns
of `types.COLUMNS`; the step hands each function what it names. Nothing else
connects a method to the step: a step never tests which method it runs.
"""

import functools
import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxroll import (
  advantage,
  numerics,
  objective,
  posterior,
  select,
  trust,
  types,
)

# Families that `resolve` finds functions in, with their folders.
FAMILIES = (
  "advantage",
  "allocate",
  "keep",
  "mixture",
  "objective",
  "objective.aggregate",
  "recipes",
  "replay",
  "reward",
  "select",
  "trust",
)

# Names that are no columns: what the step knows at the call. A function may
# give them defaults; the step's values win.
SPECIALS = {
  "key": "the step: a PRNG key for this call",
  "step": "the step: i32[], the running step",
  "num_groups": "the step: P, static",
  "num": "the step: prompts to select, static",
  "blocked": "the step: bool[N], prompts that must not be selected",
  "quota": "the step: types.Quota of the mixture's weights, None without one",
  "round": "the step: i32[], the running round",
  "rows": "the step: i32[], rows of the round",
}

_ROWS = ("group", "index", "length", "given_length", "round", "stopped")
_ROWS += ("status", "reward", "valid", "tokens", "mask", "entropy")
_ROWS += ("behaviour_logp",)
_SCORED = ("old_logp", "ref_logp")
_TRUST = tuple(types.Trust._fields)
_CALL = ("ids", "waiting", "source", "stats", "key", "step", "num_groups")

# What each family may ask for, in the order of a step.
AVAILABLE = {
  "mixture": ("step", "key"),
  "select": ("stats", "pool", "feature", "prompt_entropy", "num", "blocked")
  + ("quota", "key", "step"),
  "allocate": ("stats", "tally", "waiting", "counts", "ids", "source")
  + ("round", "rows", "key"),
  "evidence": _ROWS + _CALL,
  "reward": _ROWS + _SCORED + _CALL,
  "keep": _ROWS + _SCORED + _CALL,
  "advantage": _ROWS + _SCORED + ("adv",) + _CALL,
  "keep_loss": _ROWS + _SCORED + ("adv",) + _CALL,
  "update": _ROWS + _SCORED + ("adv", "feature") + _CALL,
  "trust": _ROWS + _SCORED + ("adv", "num_groups"),
  "losses": _ROWS + _SCORED + ("adv", "logp") + _TRUST,
  "aggregate": _ROWS + _SCORED + ("adv", "num_groups") + _TRUST,
}

# Families, held as tuples in a step's order, that a Method may stand in, as it
# may in `mixture`.
CHAINS = ("select", "reward", "keep", "advantage", "keep_loss")


def plain(round, given_length, valid):
  """Evidence by default: this step's rows from the plain prompt's root."""
  return valid & (round >= 0) & (given_length == 0)


class Recipe(NamedTuple):
  """The functions of a method by family; tuples are chains.

  Attributes:
    name: shown in logs and reports.
    allocate: types.Allocator.
    mixture: weights of the sources that a step's prompts come from, or None.
    select: chain; all but the last bind their own `num`.
    replay: types.Replay or None.
    observe: posterior update, `posterior.observe` with its decays bound.
    evidence: columns -> bool[B], rows that speak of their prompt's solve rate.
    explore, terminate: types.Hook of the sampler, or None.
    reward: chain of shaping functions.
    keep: what stays in baseline, loss and denominators; all must agree.
    advantage: an estimator, then transforms.
    keep_loss: what stays in loss and denominators only.
    trust: chain, see `trust.merge`; empty: anchored at the policy itself. A
      function that looks at other rows names `group`, see `passes`.
    losses: types.Loss terms.
    reference: keep a frozen copy of the starting policy as `ref_logp`'s.
    epochs: passes over the batch. minibatches: optimiser steps a pass.
  """

  name: str
  allocate: types.Allocator
  mixture: Callable | types.Method | None = None
  select: tuple = (select.random,)
  replay: types.Replay | None = None
  observe: Callable = posterior.observe
  evidence: Callable = plain
  explore: types.Hook | None = None
  terminate: types.Hook | None = None
  reward: tuple = ()
  keep: tuple = ()
  advantage: tuple = (advantage.grpo,)
  keep_loss: tuple = ()
  trust: tuple = (trust.clip,)
  losses: tuple = (
    types.Loss(
      "policy",
      objective.ppo_clip,
      1.0,
      objective.aggregate.token_mean,
    ),
  )
  reference: bool = False
  epochs: int = 1
  minibatches: int = 1


@functools.lru_cache(maxsize=1024)
def _names(fn) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
  """Positional names, required keywords, names with a default."""
  positional, required, optional = [], [], []
  for name, p in inspect.signature(fn).parameters.items():
    if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
      raise ValueError(f"{label(fn)} takes *{name}: name its columns instead")
    if p.default is not p.empty:
      optional.append(name)
    elif p.kind == p.KEYWORD_ONLY:
      required.append(name)
    else:
      positional.append(name)
  return tuple(positional), tuple(required), tuple(optional)


def label(fn) -> str:
  """A function's name for messages."""
  while isinstance(fn, functools.partial):
    fn = fn.func
  name = getattr(fn, "__name__", type(fn).__name__)
  parts = [*(getattr(fn, "__module__", None) or "").split("."), name]
  return ".".join(p for p in parts if p != "jaxroll" and p[:1] != "_")


def call(fn, columns: Mapping[str, Any], **specials):
  """Calls a function with the columns and specials that it names.

  A default is a hyper-parameter: a special replaces it, a column does not.
  """
  positional, required, optional = _names(fn)
  known = {**columns, **specials}
  args = [known[name] for name in positional]
  words = {name: known[name] for name in required}
  words |= {name: specials[name] for name in optional if name in specials}
  return fn(*args, **words)


def stateful(recipe: Recipe) -> list[tuple[str, types.Method]]:
  """Every method with a memory, by its slot in `TrainState.methods`."""
  mixture = [("mixture", recipe.mixture)]
  return [pair for pair in mixture if _remembers(pair[1])] + [
    (f"{family}.{place}", fn)
    for family in CHAINS
    for place, fn in enumerate(getattr(recipe, family))
    if _remembers(fn)
  ]


def functions(recipe: Recipe) -> list[tuple[str, Callable]]:
  """Every function of a recipe as (family, function), in a step's order.

  A Method counts as two: its `apply`, and its `update` as family "update".
  """
  found = [("mixture", recipe.mixture)] if recipe.mixture else []
  found += [("select", fn) for fn in recipe.select]
  found += [("allocate", fn) for fn in recipe.allocate[1:] if fn is not None]
  found += [("evidence", recipe.evidence)]
  for family in ("reward", "keep", "advantage", "keep_loss", "trust"):
    found += [(family, fn) for fn in getattr(recipe, family)]
  found += [("losses", loss.fn) for loss in recipe.losses]
  found += [("aggregate", loss.aggregate) for loss in recipe.losses]
  updates = [("update", method.update) for _, method in stateful(recipe)]
  return [
    (family, _called(fn) if family in (*CHAINS, "mixture") else fn)
    for family, fn in found
  ] + updates


def _remembers(fn) -> bool:
  return isinstance(fn, types.Method)


def _called(fn) -> Callable:
  """What is called of a function or a Method."""
  return fn.apply if _remembers(fn) else fn


def columns(fn) -> tuple[str, ...]:
  """The columns that a function, or a Method's `apply`, takes."""
  return _names(_called(fn))[0]


def asks(fn, name: str) -> bool:
  """Whether a function, or a Method's `apply`, names a column or special."""
  positional, required, _ = _names(_called(fn))
  return name in positional + required


def needs(recipe: Recipe) -> frozenset[str]:
  """Every column that some function of the recipe names."""
  named = set()
  for _, fn in functions(recipe):
    positional, required, _ = _names(fn)
    named |= set(positional) | set(required)
  return frozenset(named & set(types.COLUMNS))


def passes(recipe: Recipe) -> tuple[str, ...]:
  """The columns of log-probs that the step scores before the update.

  In a single optimiser step `old_logp` equals the log-probs of the update's own
  pass. It is scored only where somebody needs it before: any function but
  those of trust and losses; trust that names the groups, which a micro-batch
  divides; and an aggregate that asks for what trust makes of it.

  Args:
    recipe: checked.

  Returns:
    Those of `old_logp` and `ref_logp` that are scored.
  """
  named = [name for name in _SCORED if name in needs(recipe)]
  if recipe.epochs * recipe.minibatches > 1 or "old_logp" not in named:
    return tuple(named)
  by_trust, by_aggregate, earlier = set(), set(), set()
  for family, fn in functions(recipe):
    asked = set().union(*_names(fn))
    if family == "trust":
      by_trust |= asked
    elif family == "aggregate":
      by_aggregate |= asked
    elif family != "losses":
      earlier |= asked
  trust_before = by_trust & {"group", "num_groups"} or by_aggregate & set(
    _TRUST
  )
  if not (
    "old_logp" in earlier | by_aggregate
    or ("old_logp" in by_trust and trust_before)
  ):
    named.remove("old_logp")
  return tuple(named)


def check(recipe: Recipe) -> None:
  """Refuses a recipe that cannot run, before it does.

  Raises:
    ValueError: naming the function, the name it asks for and who could make
      it; or the number that is out of range.
  """
  if recipe.epochs < 1 or recipe.minibatches < 1:
    raise ValueError(
      f"epochs={recipe.epochs}, minibatches={recipe.minibatches}: both must "
      "be at least 1"
    )
  for chain in ("select", "advantage", "losses"):
    if not getattr(recipe, chain):
      raise ValueError(f"recipe {recipe.name!r} has no {chain}: give it one")
  for loss in recipe.losses:
    _refuse_k1(loss)
    if not (math.isfinite(loss.coefficient) and loss.coefficient >= 0):
      raise ValueError(
        f"loss {loss.name!r} has coefficient={loss.coefficient}: must be "
        "finite and at least 0"
      )
  memories = [m for _, m in stateful(recipe)]
  with_state = [fn for m in memories for fn in (m.apply, m.update)]
  for family, fn in functions(recipe):
    if _remembers(fn):
      raise ValueError(
        f"{family} holds a Method: only mixture and {CHAINS} may have a memory"
      )
    positional, required, _ = _names(fn)
    for name in positional + required:
      if not (name == "state" and fn in with_state):
        _check_name(recipe, family, fn, name)
  for fn in map(_called, recipe.advantage[1:]):
    if "adv" not in _names(fn)[0]:
      raise ValueError(
        f"{label(fn)} is a second estimator in advantage and would undo the "
        "first: after it only transforms, which take adv"
      )
  if "adv" in _names(_called(recipe.advantage[0]))[0]:
    raise ValueError(
      f"{label(_called(recipe.advantage[0]))} transforms adv and stands first "
      "in advantage: put an estimator before it"
    )
  for fn in map(_called, recipe.select[:-1]):
    if "num" in _names(fn)[1]:
      raise ValueError(
        f"{label(fn)} is not the last of select and has no num: bind it, "
        "functools.partial(..., num=...)"
      )


def _check_name(recipe, family, fn, name):
  maker = (types.COLUMNS | SPECIALS).get(name)
  if maker is None:
    raise ValueError(
      f"{label(fn)} asks for {name!r}, which is no column: it must be one of "
      f"{sorted(types.COLUMNS)} or {sorted(SPECIALS)}, or get a default"
    )
  if name not in AVAILABLE[family]:
    raise ValueError(
      f"{label(fn)} asks for {name!r}, which is not made when {family} runs "
      f"(it comes from {maker}); {family} may ask for {AVAILABLE[family]}"
    )
  if name == "ref_logp" and not recipe.reference:
    raise ValueError(f"{label(fn)} needs ref_logp, made by {maker}")
  if name == "waiting" and recipe.replay is None:
    raise ValueError(f"{label(fn)} needs waiting, made by {maker}")


def _refuse_k1(loss):
  keywords = getattr(loss.fn, "keywords", {})
  if keywords.get("estimator") is numerics.k1:
    raise ValueError(
      f"loss {loss.name!r} uses k1, whose expected gradient is zero: take k2 "
      "or k3, or put k1 into the reward with reward.kl_penalty"
    )


def describe(recipe: Recipe) -> str:
  """What will run and which forward passes it pays for, for humans."""
  lines = [f"recipe {recipe.name}"]
  for family, fn in functions(recipe):
    lines.append(f"  {family:<10} {label(fn)}")
  if recipe.replay is not None:
    lines.append("  replay     on")
  scored = list(passes(recipe))
  lines.append(f"  scoring passes before the update: {scored or 'none'}")
  lines.append(
    f"  optimiser steps: {recipe.epochs} epochs x {recipe.minibatches}"
  )
  return "\n".join(lines)


def resolve(name: str):
  """The function a config string names: "advantage.rloo", "recipes.vigor".

  Args:
    name: "family.function", or "objective.aggregate.function".

  Returns:
    The function.

  Raises:
    ValueError: listing the alternatives.
  """
  folder, _, function = name.rpartition(".")
  if folder not in FAMILIES:
    raise ValueError(f"{name!r}: write family.function, family in {FAMILIES}")
  family = importlib.import_module(f"jaxroll.{folder}")
  if function not in family.__all__:
    raise ValueError(
      f"{name!r} does not exist: {folder} has {sorted(family.__all__)}"
    )
  return getattr(family, function)
