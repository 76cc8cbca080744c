"""What every selection method promises."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroll import posterior, recipe, select
from jaxroll.types import COLUMNS, SCORED, Method, Quota, Sizes
from tests.select import rows
from tests.select.cases import CASES

NAMES = sorted(select.__all__)
MEMORIES = [name for name in NAMES if isinstance(CASES[name].fn, Method)]
N, M, NUM, K = 64, 40, 8, 3
SIZES = Sizes(N, NUM, 64, 5, 6, num_sources=K, num_features=4)
FEATURE = np.random.default_rng(7).normal(size=(N, 4)).astype(np.float32)
ENTROPY = np.random.default_rng(8).random(N).astype(np.float32)
SOURCE = np.arange(N, dtype=np.int32) % K


def _stats(seed):
  rng = np.random.default_rng(seed)
  alpha, beta = rng.uniform(1, 9, (2, N)).astype(np.float32)
  return posterior.init(N).replace(
    alpha=jnp.asarray(alpha),
    beta=jnp.asarray(beta),
    mean=jnp.asarray(alpha / (alpha + beta)),
    seen=jnp.asarray(rng.permutation(N), jnp.int32),
  )


def _pool(seed):
  return np.random.default_rng(seed).permutation(N)[:M].astype(np.int32)


def _blocked(seed, share=0.5):
  return jnp.asarray(np.random.default_rng(seed + 100).random(N) < share)


@functools.cache
def _state(name):
  """A memory that has seen a step."""
  method = CASES[name].fn
  # Also where it is first asked for inside a trace.
  with jax.ensure_compile_time_eval():
    return _update(name)(method.init(SIZES, key=jax.random.key(1)), 0)


def _update(name, columns=None):
  def update(state, seed):
    made = rows.sample(seed, N) if columns is None else columns
    made = made | {"state": state, "feature": jnp.asarray(FEATURE)}
    return recipe.call(CASES[name].fn.update, made)

  return update


def _call(name):
  """(stats, pool, *, num, blocked, quota, key) -> ids of every method."""
  fn = CASES[name].fn

  def call(stats, pool, **specials):
    columns = {
      "stats": stats,
      "pool": pool,
      "feature": jnp.asarray(FEATURE),
      "prompt_entropy": jnp.asarray(ENTROPY)[pool],
    }
    if not isinstance(fn, Method):
      return recipe.call(fn, columns, **specials)
    columns["state"] = _state(name)
    return recipe.call(fn.apply, columns, **specials)[0]

  return call


@functools.cache
def _jitted(name):
  return jax.jit(functools.partial(_call(name), num=NUM))


def test_every_method_has_a_case():
  assert sorted(CASES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_arguments(name):
  fn = CASES[name].fn
  memory = isinstance(fn, Method)
  parameters = inspect.signature(fn.apply if memory else fn).parameters.values()
  data = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
  words = [
    p.name
    for p in parameters
    if p.kind is p.KEYWORD_ONLY and p.default is p.empty
  ]
  assert data[: 2 + memory] == ["state"] * memory + ["stats", "pool"]
  assert set(data) - {"state"} <= set(COLUMNS)
  assert words == ["num", "key"]
  assert {"blocked", "quota"} <= {p.name for p in parameters}


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_distinct_of_the_pool_and_not_blocked(name):
  call, eager = jax.jit(functools.partial(_call(name), num=NUM)), _call(name)
  choices = set()
  for seed in range(10):
    blocked, key = _blocked(seed), jax.random.key(seed)
    args = (_stats(seed), _pool(seed))
    ids = call(*args, blocked=blocked, key=key)
    assert ids.shape == (NUM,) and ids.dtype == jnp.int32
    if seed < 2:
      np.testing.assert_array_equal(
        ids, eager(*args, num=NUM, blocked=blocked, key=key)
      )
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
def test_empty_entries_of_the_pool_are_not_ids(name):
  """A chain hands on -1 where the last selector had none left."""
  pool = np.where(np.arange(M) % 2 == 0, _pool(0), -1)
  ids = _jitted(name)(_stats(0), pool, key=jax.random.key(0))
  assert len(set(ids.tolist())) == NUM
  assert set(ids.tolist()) <= set(pool.tolist()) - {-1}


@pytest.mark.parametrize("name", NAMES)
def test_quota_is_kept(name):
  call = jax.jit(functools.partial(_call(name), num=NUM))
  for seed, count in enumerate([(8, 0, 0), (0, 5, 3), (3, 3, 2), (1, 0, 7)]):
    blocked = _blocked(seed, 0.6)
    ids = call(
      _stats(seed),
      _pool(seed),
      blocked=blocked,
      quota=Quota(jnp.asarray(SOURCE), jnp.asarray(count, jnp.int32)),
      key=jax.random.key(seed),
    )
    pool = _pool(seed)
    able = pool[~np.asarray(blocked)[pool]]
    able = np.bincount(SOURCE[able], minlength=K)
    taken = np.bincount(SOURCE[np.asarray(ids)], minlength=K)
    assert ids.min() >= 0 and len(set(ids.tolist())) == NUM
    assert (taken >= np.minimum(count, able)).all()
    if (able >= count).all():
      assert taken.tolist() == list(count)
  assert call._cache_size() == 1


@pytest.mark.parametrize("name", NAMES)
def test_what_a_source_lacks_goes_to_the_others(name):
  pool = _pool(0)
  own = SOURCE[pool] == 0
  blocked = np.zeros(N, bool)
  blocked[pool[own][2:]] = True
  ids = _jitted(name)(
    _stats(0),
    pool,
    blocked=jnp.asarray(blocked),
    quota=Quota(jnp.asarray(SOURCE), jnp.array([6, 2, 0], jnp.int32)),
    key=jax.random.key(0),
  )
  taken = np.bincount(SOURCE[np.asarray(ids)], minlength=K)
  assert ids.min() >= 0 and taken.sum() == NUM
  assert taken[0] == 2 and taken[1] >= 2


@pytest.mark.parametrize("name", NAMES)
def test_nothing_blocked_and_no_quota_are_the_defaults(name):
  args = (_stats(0), _pool(0))
  key = jax.random.key(0)
  ids = _jitted(name)(*args, key=key)
  none = _jitted(name)(*args, blocked=jnp.zeros(N, bool), quota=None, key=key)
  np.testing.assert_array_equal(ids, none)


@pytest.mark.parametrize("name", NAMES)
def test_whole_pool_is_selected_once(name):
  ids = _call(name)(_stats(0), _pool(0), num=M, key=jax.random.key(0))
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
  draw = lambda key: _call(name)(stats, pool, num=NUM, key=key)  # noqa: E731
  ids = jax.jit(jax.vmap(draw))(keys)
  for key, row in zip(keys, ids):
    np.testing.assert_array_equal(row, _jitted(name)(stats, pool, key=key))
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
    _call(name)(_stats(0), _pool(0), num=num, key=jax.random.key(0))


# --- memories


def _types(tree):
  return jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), tree)


@pytest.mark.parametrize("name", MEMORIES)
def test_a_memory_keeps_its_types_and_compiles_once(name):
  method = CASES[name].fn

  @jax.jit
  def step(state, seeded, key):
    columns = seeded | {
      "stats": _stats(0),
      "pool": _pool(0),
      "feature": jnp.asarray(FEATURE),
    }
    ids, state = recipe.call(
      method.apply, columns | {"state": state}, num=NUM, key=key
    )
    columns = columns | {"state": state}
    return ids, recipe.call(method.update, columns)

  state = method.init(SIZES, key=jax.random.key(0))
  expected = _types(state)
  for seed in range(3):
    _, state = step(state, rows.sample(seed, N), jax.random.key(seed))
    assert _types(state) == expected
    assert all(jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(state))
  assert step._cache_size() == 1


@pytest.mark.parametrize("name", MEMORIES)
def test_rows_that_were_not_scored_are_unread(name):
  state, columns = _state(name), rows.sample(1, N)
  out = columns["status"] != SCORED
  assert out.any()
  dirty = columns | {
    "reward": jnp.where(out, jnp.nan, columns["reward"]),
    "entropy": jnp.where(out[:, None], jnp.nan, columns["entropy"]),
  }
  clean = _update(name, columns)(state, 1)
  for a, b in zip(
    jax.tree.leaves(_update(name, dirty)(state, 1)), jax.tree.leaves(clean)
  ):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", MEMORIES)
def test_a_step_without_scores_teaches_nothing(name):
  state, columns = _state(name), rows.sample(1, N)
  columns["status"] = jnp.ones_like(columns["status"])
  after = _update(name, columns)(state, 1)
  shrunk = name in ("epsilon_greedy", "thompson", "ucb")  # by gamma, at most
  for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(state)):
    np.testing.assert_allclose(a, b, rtol=0.02 if shrunk else 0)
