"""How are a recipe's functions called? In chains, each with its own memory."""

import jax
import jax.numpy as jnp

from jaxroll import apportion, numerics, recipe, types


def mix(rules, methods, source, pool, *, num, blocked, step, key):
  """How many of a step's prompts come from each source.

  Args:
    rules: the recipe.
    methods: states of the stateful methods by slot.
    source: i32[N], of every prompt of the task.
    pool: i32[M], ids that may be selected.
    num: prompts of the step, static.
    blocked: bool[N].
    step: i32[].
    key: PRNG key.

  Returns:
    `types.Quota` or None, and the methods' states.
  """
  if rules.mixture is None:
    return None, methods
  methods, specials = dict(methods), {"step": step, "key": key}
  if isinstance(rules.mixture, types.Method):
    columns = {"state": methods["mixture"]}
    weights, methods["mixture"] = recipe.call(
      rules.mixture.apply, columns, **specials
    )
  else:
    weights = recipe.call(rules.mixture, {}, **specials)
  available = numerics.group_count(
    source[pool], weights.shape[0], ~blocked[pool]
  )
  # Ties in a random order: else the last of many equal sources never comes.
  order = jax.random.permutation(jax.random.fold_in(key, 1), weights.shape[0])
  shuffled = apportion.largest_remainder(
    weights[order], num, available=available[order]
  )
  count = jnp.zeros_like(shuffled).at[order].set(shuffled)
  return types.Quota(source, count), methods


def select(
  rules, pool, columns, methods, *, num, blocked, quota, step, key, entropy
):
  """Which prompts a step takes: each function chooses from the last's choice.

  Args:
    rules: the recipe.
    pool: i32[M], ids of the first choice.
    columns: by name, of all prompts of the task: `stats`, `feature`.
    methods: states of the stateful methods by slot.
    num: ids wanted of the last function, static.
    blocked: bool[N].
    quota: types.Quota or None.
    step: i32[].
    key: for the chain.
    entropy: (pool i32[M]) -> f32[M], `prompt_entropy`; called where it is
      asked for.

  Returns:
    i32[num], -1 where none is left, and the methods' states.
  """
  methods = dict(methods)
  for place, fn in enumerate(rules.select):
    columns = columns | {"pool": pool}
    if recipe.asks(fn, "prompt_entropy"):
      columns["prompt_entropy"] = entropy(pool)
    specials = {
      "blocked": blocked,
      "quota": quota,
      "step": step,
      "key": jax.random.fold_in(key, place),
    }
    if place == len(rules.select) - 1:
      specials["num"] = num
    if isinstance(fn, types.Method):
      slot = f"select.{place}"
      pool, methods[slot] = recipe.call(
        fn.apply, columns | {"state": methods[slot]}, **specials
      )
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
