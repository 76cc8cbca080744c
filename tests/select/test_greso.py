"""GRESO: streaks without variance, and how their filter adapts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import posterior, recipe, select
from jaxroll.select._greso import Streaks, pass_chance
from jaxroll.types import Sizes
from tests.select import rows

N = 5


def _after(method, *steps):
  state = method.init(Sizes(N, 3, 6, 5, 6), key=jax.random.key(0))
  for columns in steps:
    state = recipe.call(method.update, columns | {"state": state})
  return state


def test_streaks_grow_and_break():
  first = rows.step([3, 1, 0], [[1, 1], [0, 0], [1, 0]])
  second = rows.step([3, 1], [[1, 1], [0, 1]])
  state = _after(select.greso(), first, first, second)
  assert state.ties.tolist() == [0, 0, 0, 3, 0]
  # All right: 3 in a row at the base probability of easy prompts.
  chance = pass_chance(state)
  np.testing.assert_allclose(chance[3], state.explore[0] ** 3, rtol=1e-6)
  np.testing.assert_allclose(chance[jnp.array([0, 1, 2, 4])], 1.0)


def test_base_probability_moves_to_the_targets():
  # One of three all right (1/3 >= 1/12), none all wrong (0 < 1/6).
  columns = rows.step([3, 1, 0], [[1, 1], [0, 1], [1, 0]])
  state = _after(select.greso(), columns)
  np.testing.assert_allclose(state.explore, [0.49, 0.51], rtol=1e-6)
  # One of three all wrong: now the other way round.
  columns = rows.step([3, 1, 0], [[0, 0], [0, 1], [1, 0]])
  state = _after(select.greso(), columns)
  np.testing.assert_allclose(state.explore, [0.51, 0.49], rtol=1e-6)
  state = _after(select.greso(explore=1.0, change=0.9), columns, columns)
  np.testing.assert_allclose(state.explore, [1.0, 0.05], rtol=1e-6)


def test_prompts_are_skipped_as_often_as_the_filter_says():
  method = select.greso()
  state = Streaks(
    jnp.array([0, 2]), jnp.array([False, True]), jnp.array([0.9, 0.5])
  )

  @jax.jit
  @jax.vmap
  def draw(key):
    pool = jnp.arange(2)
    return method.apply(state, posterior.init(2), pool, num=1, key=key)[0]

  ids = np.asarray(draw(jax.random.split(jax.random.key(0), 4000)))
  # Prompt 1 passes with .25 and is then one of two: 1/8.
  assert abs(np.mean(ids) - 0.125) < 5 * np.sqrt(0.125 * 0.875 / 4000)


def test_a_long_streak_is_still_selectable():
  method = select.greso()
  state = Streaks(
    jnp.full((3,), 10_000), jnp.zeros(3, bool), jnp.array([0.05, 0.05])
  )
  ids, _ = method.apply(
    state, posterior.init(3), jnp.arange(3), num=3, key=jax.random.key(0)
  )
  assert sorted(ids.tolist()) == [0, 1, 2]


@pytest.mark.parametrize("number", [{"least": 0.0}, {"explore": 0.01}])
def test_numbers_out_of_range_are_refused(number):
  name, value = next(iter(number.items()))
  with pytest.raises(ValueError, match=f"{name}={value} must lie in"):
    select.greso(**number)
