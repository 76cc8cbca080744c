"""A recipe's hooks reach the sampler."""

import jax
import jax.numpy as jnp

from jaxroll import recipes, types
from tests.train import tiny

FAVOURITE = 7


def test_explore_and_terminate_of_a_recipe():
  def favour(logits, carry):
    bias = jnp.where(jnp.arange(logits.shape[1]) == FAVOURITE, 1e4, 0.0)
    return logits + bias[None, :], carry

  def third(trace: types.Trace, carry):
    return trace.position == 2, carry

  none = lambda rows: jnp.zeros((rows,))  # noqa: E731
  rules = recipes.uniform(tiny.SIZES)._replace(
    explore=types.Hook(none, favour), terminate=types.Hook(none, third)
  )
  step, state = tiny.make(rules), tiny.state(rules)
  draft = step.begin(state, tiny.data())
  _, rows, _ = jax.jit(step.generate)(state, tiny.SETTINGS, draft, 0)
  assert (rows.length == 3).all() and rows.stopped.all()
  assert (rows.tokens[:, :3] == FAVOURITE).all()
