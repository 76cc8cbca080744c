"""What every selection method promises."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroll import posterior, select
from jaxroll.types import COLUMNS
from tests.select.cases import CASES

NAMES = sorted(select.__all__)
N, M, NUM = 64, 40, 8


def _stats(seed):
  rng = np.random.default_rng(seed)
  alpha, beta = rng.uniform(1, 9, (2, N)).astype(np.float32)
  return posterior.init(N).replace(
    alpha=jnp.asarray(alpha), beta=jnp.asarray(beta)
  )


def _pool(seed):
  return np.random.default_rng(seed).permutation(N)[:M].astype(np.int32)


def _blocked(seed, share=0.5):
  return jnp.asarray(np.random.default_rng(seed + 100).random(N) < share)


def _jitted(name):
  return jax.jit(functools.partial(CASES[name].fn, num=NUM))


def test_every_method_has_a_case():
  assert sorted(CASES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_arguments(name):
  parameters = inspect.signature(CASES[name].fn).parameters.values()
  data = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
  words = [
    p.name
    for p in parameters
    if p.kind is p.KEYWORD_ONLY and p.default is p.empty
  ]
  assert data[:2] == ["stats", "pool"]
  assert set(data) <= set(COLUMNS)
  assert words == ["num", "key"]


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_distinct_of_the_pool_and_not_blocked(name):
  call = _jitted(name)
  choices = set()
  for seed in range(10):
    blocked, key = _blocked(seed), jax.random.key(seed)
    args = (_stats(seed), _pool(seed))
    ids = call(*args, blocked=blocked, key=key)
    assert ids.shape == (NUM,) and ids.dtype == jnp.int32
    eager = CASES[name].fn(*args, num=NUM, blocked=blocked, key=key)
    np.testing.assert_array_equal(ids, eager)
    ids = np.asarray(ids)
    assert len(set(ids)) == NUM
    assert set(ids) <= set(_pool(seed))
    assert not np.asarray(blocked)[ids].any()
    choices.add(tuple(ids))
  assert len(choices) == 10
  # Beliefs, pool, blocked ids and key all changed: one compilation.
  assert call._cache_size() == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("left", [0, 3])
def test_what_cannot_be_filled_is_minus_one(name, left):
  pool = _pool(0)
  blocked = np.ones(N, bool)
  blocked[pool[:left]] = False
  ids = _jitted(name)(
    _stats(0), pool, blocked=jnp.asarray(blocked), key=jax.random.key(0)
  )
  assert set(np.asarray(ids)[:left]) == set(pool[:left])
  assert ids[left:].tolist() == [-1] * (NUM - left)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_blocked_is_the_default(name):
  args = (_stats(0), _pool(0))
  key = jax.random.key(0)
  ids = CASES[name].fn(*args, num=NUM, key=key)
  none = CASES[name].fn(*args, num=NUM, blocked=jnp.zeros(N, bool), key=key)
  np.testing.assert_array_equal(ids, none)


@pytest.mark.parametrize("name", NAMES)
def test_whole_pool_is_selected_once(name):
  ids = CASES[name].fn(_stats(0), _pool(0), num=M, key=jax.random.key(0))
  assert sorted(np.asarray(ids)) == sorted(_pool(0))


@pytest.mark.parametrize("name", NAMES)
def test_order_of_the_pool_does_not_matter(name):
  pool, key = _pool(0), jax.random.key(0)
  ids = _jitted(name)(_stats(0), pool, key=key)
  np.testing.assert_array_equal(
    ids, _jitted(name)(_stats(0), pool[::-1], key=key)
  )


@pytest.mark.parametrize("name", NAMES)
def test_vmap_over_keys(name):
  stats, pool = _stats(0), _pool(0)
  keys = jax.random.split(jax.random.key(0), 4)
  draw = lambda key: CASES[name].fn(stats, pool, num=NUM, key=key)  # noqa: E731
  ids = jax.vmap(draw)(keys)
  for key, row in zip(keys, ids):
    np.testing.assert_array_equal(row, draw(key))
  if CASES[name].by_key:
    assert len({tuple(row) for row in ids.tolist()}) == 4


@pytest.mark.parametrize("name", NAMES)
def test_sharded_stats_give_the_same_ids(name):
  mesh = Mesh(np.array(jax.devices()), ("data",))
  sharding = NamedSharding(mesh, PartitionSpec("data"))
  stats, blocked = _stats(0), _blocked(0)
  key = jax.random.key(0)
  expected = _jitted(name)(stats, _pool(0), blocked=blocked, key=key)
  ids = _jitted(name)(
    jax.device_put(stats, sharding),
    _pool(0),
    blocked=jax.device_put(blocked, sharding),
    key=key,
  )
  np.testing.assert_array_equal(ids, expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num", [0, M + 1])
def test_more_than_the_pool_or_none_is_refused(name, num):
  with pytest.raises(ValueError, match=f"num={num} is not in 1 <= num <= {M}"):
    CASES[name].fn(_stats(0), _pool(0), num=num, key=jax.random.key(0))
