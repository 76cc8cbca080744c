"""What every allocator promises."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroll import allocate
from jaxroll.types import COLUMNS
from tests.allocate import columns as columns_lib
from tests.allocate.cases import CASES, NUM_PROMPTS

NAMES = sorted(allocate.__all__)


def _rewards(seed):
  """Continuous rewards, so that no two variances tie."""
  table = np.random.default_rng(seed).normal(size=(NUM_PROMPTS, 64))
  return lambda number, prompt, place: float(table[prompt, place])


def _waiting(seed):
  return np.random.default_rng(seed).permutation(NUM_PROMPTS) < seed % 4


def _columns(seed):
  table = np.random.default_rng(seed).normal(size=(NUM_PROMPTS, 2))
  return {
    "stats": columns_lib.stats(NUM_PROMPTS),
    "tally": columns_lib.tally(table.tolist()),
    "counts": jnp.full(NUM_PROMPTS, 2, jnp.int32),
    "waiting": jnp.asarray(_waiting(seed)),
  }


def _last_round(case, call, columns):
  rounds = case.allocator.rounds(case.budget, NUM_PROMPTS)
  number = min(1, len(rounds) - 1)
  return call(
    **columns_lib.bind(case.allocator.counts, columns),
    round=jnp.int32(number),
    rows=jnp.int32(rounds[number]),
    key=jax.random.key(0),
  )


def test_every_method_has_a_case():
  assert sorted(CASES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_columns(name):
  parameters = inspect.signature(CASES[name].allocator.counts).parameters
  words = [
    p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
  ]
  keywords = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
  assert set(words) <= set(COLUMNS)
  assert keywords == ["round", "rows", "key"]


@pytest.mark.parametrize("name", NAMES)
def test_plan_is_static_and_within_the_budget(name):
  case = CASES[name]
  rounds = case.allocator.rounds(case.budget, NUM_PROMPTS)
  assert all(type(rows) is int and rows > 0 for rows in rounds)
  assert sum(rounds) == case.budget
  with pytest.raises(
    ValueError, match=f"budget={case.short}.*raise the budget"
  ):
    case.allocator.rounds(case.short, NUM_PROMPTS)


@pytest.mark.parametrize("name", NAMES)
def test_counts_keep_to_rows_floor_and_cap_without_recompiling(name):
  case = CASES[name]
  call = jax.jit(case.allocator.counts)
  rounds = case.allocator.rounds(case.budget, NUM_PROMPTS)
  for seed in range(5):
    run = lambda **kwargs: columns_lib.run_step(  # noqa: E731
      case.allocator,
      case.budget,
      _rewards(seed),  # noqa: B023
      NUM_PROMPTS,
      waiting=_waiting(seed),  # noqa: B023
      **kwargs,
    )
    counts = run(call=call)
    assert (counts >= 0).all()
    assert (counts.sum(axis=1) <= rounds).all()
    if case.spends_all:
      assert counts.sum(axis=1).tolist() == list(rounds)
    assert counts.sum(axis=0).min() >= case.floor
    assert counts.sum(axis=0).max() <= case.cap
    np.testing.assert_array_equal(counts, run())
  # Rounds, evidence and waiting prompts all changed: one compilation.
  assert call._cache_size() == 1


@pytest.mark.parametrize("name", NAMES)
def test_runs_under_scan(name):
  case = CASES[name]
  rounds = case.allocator.rounds(case.budget, NUM_PROMPTS)
  bound = columns_lib.bind(case.allocator.counts, _columns(1))

  def body(carry, xs):
    number, rows = xs
    key = jax.random.key(0)
    counts = case.allocator.counts(**bound, round=number, rows=rows, key=key)
    return carry, counts

  numbers = jnp.arange(len(rounds), dtype=jnp.int32)
  rows = jnp.asarray(rounds, jnp.int32)
  _, scanned = jax.lax.scan(body, 0, (numbers, rows))
  for number in range(len(rounds)):
    expected = case.allocator.counts(
      **bound, round=number, rows=rounds[number], key=jax.random.key(0)
    )
    np.testing.assert_array_equal(scanned[number], expected)


@pytest.mark.parametrize("name", NAMES)
def test_permuting_prompts_permutes_counts(name):
  case = CASES[name]
  columns = _columns(3)
  order = np.random.default_rng(0).permutation(NUM_PROMPTS)
  permuted = jax.tree.map(lambda x: x[order], columns)
  call = case.allocator.counts
  counts = np.asarray(_last_round(case, call, columns))
  np.testing.assert_array_equal(
    _last_round(case, call, permuted), counts[order]
  )


@pytest.mark.parametrize("name", NAMES)
def test_sharded_prompts_give_the_same_counts(name):
  case = CASES[name]
  mesh = Mesh(np.array(jax.devices()), ("data",))
  columns = _columns(2)
  sharded = jax.device_put(columns, NamedSharding(mesh, PartitionSpec("data")))
  call = jax.jit(case.allocator.counts)
  np.testing.assert_array_equal(
    _last_round(case, call, sharded), _last_round(case, call, columns)
  )
