"""How are a recipe's functions called? In chains, each with its own memory."""

import jax

from jaxroll import recipe, types


def select(rules, pool, stats, methods, *, num, blocked, step, key):
  """Which prompts a step takes: each function chooses from the last's choice.

  Args:
    rules: the recipe.
    pool: i32[M], ids of the first choice.
    stats: PromptStats[N].
    methods: states of the stateful methods by slot.
    num: ids wanted of the last function, static.
    blocked: bool[N].
    step: i32[].
    key: for the chain.

  Returns:
    i32[num], -1 where none is left, and the methods' states.
  """
  methods = dict(methods)
  for place, fn in enumerate(rules.select):
    columns = {"stats": stats, "pool": pool}
    specials = {
      "blocked": blocked,
      "step": step,
      "key": jax.random.fold_in(key, place),
    }
    if place == len(rules.select) - 1:
      specials["num"] = num
    if isinstance(fn, types.Method):
      slot = f"select.{place}"
      columns["state"] = methods[slot]
      pool, methods[slot] = recipe.call(fn.apply, columns, **specials)
    else:
      pool = recipe.call(fn, columns, **specials)
  return pool, methods


def value(rules: recipe.Recipe, rows, prompts, methods, specials):
  """What the rows are worth: reward, keep, advantage, keep for the loss.

  Args:
    rules: the recipe.
    rows: columns [B, ...] with the verifier's `reward` and `valid`.
    prompts: columns [P].
    methods: states of the stateful methods by slot.
    specials: `num_groups`, `step` and `key`, see `recipe.SPECIALS`.

  Returns:
    rows with `reward`, `valid`, `mask` and `adv` as the recipe has them, and
    the methods' states.
  """
  rows, methods = dict(rows), dict(methods)

  def apply(family, place, fn):
    columns = rows | prompts
    own = _own_key(specials, recipe.CHAINS.index(family), place)
    if not isinstance(fn, types.Method):
      return recipe.call(fn, columns, **own)
    slot = f"{family}.{place}"
    columns["state"] = methods[slot]
    out, methods[slot] = recipe.call(fn.apply, columns, **own)
    return out

  for place, fn in enumerate(rules.reward):
    rows["reward"] = apply("reward", place, fn)
  for place, fn in enumerate(rules.keep):
    kept = apply("keep", place, fn)
    rows["mask" if kept.ndim == 2 else "valid"] &= kept
  rows["mask"] &= rows["valid"][:, None]
  for place, fn in enumerate(rules.advantage):
    rows["adv"] = jax.lax.stop_gradient(apply("advantage", place, fn))
  for place, fn in enumerate(rules.keep_loss):
    kept = apply("keep_loss", place, fn)
    rows["mask"] &= kept if kept.ndim == 2 else kept[:, None]
  return rows, methods


def update(rules: recipe.Recipe, columns, methods, specials):
  """The methods' states after a step that ended with these rows.

  Args:
    rules, methods, specials: as for `value`.
    columns: rows as `value` left them, and the columns [P].

  Returns:
    States by slot.
  """
  methods = dict(methods)
  for number, (slot, method) in enumerate(recipe.stateful(rules)):
    own_columns = columns | {"state": methods[slot]}
    own = _own_key(specials, len(recipe.CHAINS), number)
    methods[slot] = recipe.call(method.update, own_columns, **own)
  return methods


def _own_key(specials, family, place):
  """The specials with a key that no other function of the step gets."""
  key = jax.random.fold_in(specials["key"], family)
  return specials | {"key": jax.random.fold_in(key, place)}
