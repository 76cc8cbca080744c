"""What does a run start with? The first TrainState."""

import jax
import jax.numpy as jnp
import optax

from jaxroll import posterior, recipe, types


def init_state(
  rules: recipe.Recipe,
  policy: types.Policy,
  optimiser: optax.GradientTransformation,
  sizes: types.Sizes,
  key,
  *,
  params=None,
) -> types.TrainState:
  """The state before the first step.

  Args:
    rules: the recipe; its stateful methods get their first state here.
    policy: types.Policy.
    optimiser: optax transformation.
    sizes: static sizes.
    key: typed PRNG key of the run.
    params: the policy's parameters; None draws them from the key.

  Returns:
    `types.TrainState`. With `rules.reference` a copy of the parameters is
    kept in `frozen["reference"]`.
  """
  recipe.check(rules)
  starts, methods_key = jax.random.split(jax.random.fold_in(key, 2**31 - 1))
  if params is None:
    params = policy.init(starts)
  methods = {}
  if rules.replay is not None:
    methods["replay"] = rules.replay.init(sizes, key=methods_key)
  for place, (slot, method) in enumerate(recipe.stateful(rules)):
    own = jax.random.fold_in(methods_key, place)
    methods[slot] = method.init(sizes, key=own)
  frozen = {}
  if rules.reference:
    frozen["reference"] = jax.tree.map(jnp.copy, params)
  state = types.TrainState(
    learners={"policy": types.Learner(params, optimiser.init(params))},
    frozen=frozen,
    stats=posterior.init(sizes.num_ids),
    methods=methods,
    step=jnp.int32(0),
    key=key,
  )
  return jax.tree.map(_strong, state)


def _strong(leaf):
  """A leaf of the same type without weakness: a restored one has none."""
  if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
    return leaf
  return jax.lax.convert_element_type(jnp.asarray(leaf), leaf.dtype)
