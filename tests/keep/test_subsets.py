"""Which rows of a group stay: typed-in values and edges."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import keep

# A group of six rows and one of two, not in order.
GROUP = jnp.array([0, 1, 0, 0, 0, 1, 0, 0], jnp.int32)
INDEX = jnp.array([0, 0, 1, 2, 3, 1, 4, 5], jnp.int32)
WHERE = {"num_groups": 3, "valid": jnp.ones(8, bool)}


def column(six, two=(0.0, 0.0), dtype=jnp.float32):
  """A column of the first group's and the second group's rows."""
  x = np.zeros(8)
  x[np.asarray(GROUP) == 0], x[np.asarray(GROUP) == 1] = six, two
  return jnp.asarray(x, dtype)


def of(kept, group=0):
  return kept[GROUP == group].astype(int).tolist()


# Unscored rows fill what the example does not need.
FOUR = WHERE | {"valid": column([1, 1, 1, 1, 0, 0], [1, 1], bool)}


def test_efficient_keeps_the_most_reward_by_token():
  # Ratios .01, 0, .02, .0025.
  reward = column([1, 0, 1, 1, 1, 1])
  length = column([100, 20, 50, 400, 1, 1], [9, 9], jnp.int32)
  kept = keep.efficient(reward, length, GROUP, INDEX, **FOUR, k=2)
  assert of(kept) == [1, 0, 1, 0, 0, 0]
  assert of(kept, 1) == [1, 1]


def test_efficient_without_tokens_is_no_division_by_zero():
  reward, length = column([1, 1, 1, 1, 1, 1]), column([0] * 6, dtype=jnp.int32)
  kept = keep.efficient(reward, length, GROUP, INDEX, **FOUR, k=1)
  assert of(kept) == [1, 0, 0, 0, 0, 0]


def test_shortest_keeps_the_shortest_and_ties_by_index():
  length = column([7, 3, 5, 3, 9, 3], [4, 4], jnp.int32)
  kept = keep.shortest(length, GROUP, INDEX, **WHERE, k=2)
  assert of(kept) == [0, 1, 0, 1, 0, 0]
  kept = keep.shortest(length, GROUP, INDEX, **WHERE, k=4)
  assert of(kept) == [0, 1, 1, 1, 0, 1]
  turned = keep.shortest(length, GROUP, 9 - INDEX, **WHERE, k=2)
  assert of(turned) == [0, 0, 0, 1, 0, 1]


@pytest.mark.parametrize("k", [6, 7, 100])
def test_a_group_with_no_more_rows_stays_whole(k):
  reward = column([1, 0, 1, 1, 0, 0])
  length = column([7, 3, 5, 3, 9, 3], [4, 4], jnp.int32)
  by = (GROUP, INDEX)
  assert keep.shortest(length, *by, **WHERE, k=k).all()
  assert keep.efficient(reward, length, *by, **WHERE, k=k).all()
  assert keep.max_variance(reward, *by, **WHERE, n=k).all()


def test_max_variance_keeps_two_of_each():
  reward = column([1, 0, 0, 0, 1, 0])
  kept = of(keep.max_variance(reward, GROUP, INDEX, **WHERE, n=4))
  assert sum(kept) == 4 and kept[0] == kept[4] == 1


def test_max_variance_takes_what_there_is_of_the_rarer_kind():
  reward = column([0, 0, 1, 0, 0, 0])
  kept = of(keep.max_variance(reward, GROUP, INDEX, **WHERE, n=4))
  assert sum(kept) == 4 and kept[2] == 1


def test_max_variance_of_a_tied_group_keeps_n():
  reward = column([0.1] * 6)
  assert sum(of(keep.max_variance(reward, GROUP, INDEX, **WHERE, n=4))) == 4


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_max_variance_is_the_best_of_all_subsets(n):
  rng = np.random.default_rng(n)
  select = jax.jit(
    lambda reward: keep.max_variance(reward, GROUP, INDEX, **WHERE, n=n)
  )
  for _ in range(20):
    six = np.round(rng.normal(size=6), 3)
    kept = np.array(of(select(column(six))), bool)
    assert kept.sum() == n
    best = max(
      np.var(six[list(s)]) for s in itertools.combinations(range(6), n)
    )
    assert np.var(six[kept]) == pytest.approx(best, abs=1e-6)


# --- over the whole step


def test_top_advantage_keeps_a_share_of_the_step():
  adv = column([0.5, -2.0, 0.0, 1.0, 0.1, -0.2], [-1.5, 3.0])
  mask = jnp.ones((8, 1), bool)
  kept = keep.top_advantage(adv, INDEX, mask, valid=WHERE["valid"])
  assert of(kept) == [0, 1, 0, 1, 0, 0] and of(kept, 1) == [1, 1]


def test_top_advantage_by_token_is_the_mean_of_trained_tokens():
  adv = jnp.tile(jnp.array([[1.0, 9.0]]), (8, 1)).at[3].set(2.0)
  mask = jnp.tile(jnp.array([[True, False]]), (8, 1))
  kept = keep.top_advantage(
    adv, INDEX, mask, valid=WHERE["valid"], fraction=0.125
  )
  assert jnp.flatnonzero(kept).tolist() == [3]


@pytest.mark.parametrize("rows, kept", [(30, 3), (31, 4), (1, 1), (0, 0)])
def test_top_advantage_rounds_the_share_up(rows, kept):
  """0.1 * 30 is above 3 in floating point."""
  place = jnp.arange(32, dtype=jnp.int32)
  out = keep.top_advantage(
    jnp.ones(32),
    place,
    jnp.ones((32, 1), bool),
    valid=place < rows,
    fraction=0.1,
  )
  assert int(out.sum()) == kept


# --- what is refused


@pytest.mark.parametrize(
  "name, hyper",
  [
    ("shortest", {"k": 0}),
    ("efficient", {"k": 0}),
    ("max_variance", {"n": 0}),
  ],
)
def test_refuses_to_keep_nothing(name, hyper):
  x = column([1] * 6)
  data = {"shortest": (x,), "efficient": (x, x), "max_variance": (x,)}[name]
  with pytest.raises(ValueError, match="=0 must be >= 1"):
    getattr(keep, name)(*data, GROUP, INDEX, **WHERE, **hyper)


@pytest.mark.parametrize("fraction", [0, 1.5, float("nan")])
def test_top_advantage_refuses_a_share_that_is_none(fraction):
  with pytest.raises(ValueError, match="fraction="):
    keep.top_advantage(
      column([1] * 6),
      INDEX,
      jnp.ones((8, 1), bool),
      valid=WHERE["valid"],
      fraction=fraction,
    )
