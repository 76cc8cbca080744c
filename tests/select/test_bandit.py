"""Bandit selectors: epsilon_greedy, thompson, ucb over prompts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import posterior, recipe, select
from jaxroll.select._bandit import Arms
from jaxroll.types import Sizes
from tests.select import rows

N = 6
SIZES = Sizes(N, 3, 12, 5, 6)


def _choose(method, total, pulls, num, seed=0):
  state = Arms(jnp.asarray(total, jnp.float32), jnp.asarray(pulls, jnp.float32))
  ids, after = method.apply(
    state, posterior.init(N), jnp.arange(N), num=num, key=jax.random.key(seed)
  )
  assert after is state
  return ids.tolist()


def test_a_mixed_group_pays_and_old_sums_shrink():
  method = select.ucb(gamma=0.5)
  state = method.init(SIZES, key=jax.random.key(0))
  # Prompt 4 mixed, 1 all right, 2 all wrong; the rest not rolled out.
  columns = rows.step([4, 1, 2], [[1, 0], [1, 1], [0, 0]])
  for _ in range(2):
    state = recipe.call(method.update, columns | {"state": state})
  np.testing.assert_allclose(state.total, [0, 0, 0, 0, 1.5, 0])
  np.testing.assert_allclose(state.pulls, [0, 1.5, 1.5, 0, 1.5, 0])


def test_ucb_takes_what_was_never_pulled_then_the_bounds():
  # Bounds by hand with scale sqrt 2 and sum n = 40: mean + sqrt(2 log 40 / n).
  # 0: .9 + .859, 1: .5 + 1.358, 2: .5 + .859, 3: .2 + .859.
  total, pulls = [9, 2, 5, 2, 4, 0], [10, 4, 10, 10, 6, 0]
  # 4: 4/6 + 1.109 = 1.776.
  assert _choose(select.ucb(), total, pulls, 4) == [5, 1, 4, 0]
  # Greedy: means .9, .67, .5 = .5.
  assert _choose(select.ucb(scale=0.0), total, pulls, 3)[:3] == [5, 0, 4]


def test_epsilon_greedy_is_greedy_without_epsilon():
  total, pulls = [9, 2, 5, 2, 4, 0], [10, 5, 10, 10, 6, 0]
  assert _choose(select.epsilon_greedy(epsilon=0.0), total, pulls, 3) == [
    0,
    4,
    2,
  ]


def test_epsilon_greedy_explores_as_often_as_it_says():
  method = select.epsilon_greedy(epsilon=0.5)
  state = Arms(jnp.array([9.0, 8, 0, 0, 0, 0]), jnp.full((N,), 10.0))

  @jax.jit
  @jax.vmap
  def draw(key):
    pool = jnp.arange(N)
    return method.apply(state, posterior.init(N), pool, num=1, key=key)[0]

  ids = np.asarray(draw(jax.random.split(jax.random.key(0), 2000)))
  # A place takes prompt 0 unless it explores one of the five others.
  share = np.mean(ids == 0)
  expected = 1 - 0.5 * 5 / 6
  assert abs(share - expected) < 5 * np.sqrt(0.25 / 2000)


def test_thompson_prefers_the_paying():
  total, pulls = [500, 1, 400, 1, 1, 1], [502, 502, 502, 502, 502, 502]
  assert _choose(select.thompson(), total, pulls, 2) == [0, 2]


@pytest.mark.parametrize(
  "make, match",
  [
    (lambda: select.ucb(scale=-1.0), "scale=-1.0 must be >= 0"),
    (lambda: select.thompson(gamma=1.5), "gamma=1.5 must lie in"),
    (lambda: select.epsilon_greedy(epsilon=2.0), "epsilon=2.0 must lie in"),
  ],
)
def test_numbers_out_of_range_are_refused(make, match):
  with pytest.raises(ValueError, match=match):
    make()
