"""Every task keeps the protocol of `jaxroll.environments`."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import environments, types
from jaxroll.environments import vocabulary
from tests.environments import cases

NAMES = sorted(cases.TASKS)
first_of = functools.cache(lambda name: cases.TASKS[name]())
IN_GRAPH = [name for name in NAMES if first_of(name).jittable]
KEY = jax.random.key(0)


@functools.cache
def solved(name):
  """A task, all of its prompts, one solved row of each, and its verifier."""
  task = first_of(name)
  ids = jnp.arange(len(task.grade), dtype=jnp.int32)
  prompts, contexts = jax.jit(task.prompts)(task.data, ids)
  tokens, length = jax.jit(task.solutions)(task.data, ids, KEY)
  rows = cases.rollouts(tokens, length, group=ids)
  return task, prompts, contexts, rows, cases.verifier(task)


def rewards(name, **changes):
  _, prompts, _, rows, verify = solved(name)
  return verify(prompts, rows.replace(**changes))


def test_every_task_has_a_case():
  assert NAMES == environments.__all__


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_dtypes(name):
  task, prompts, contexts, rows, verify = solved(name)
  num = len(task.grade)
  chex.assert_tree_shape_prefix(task.data, (num,))
  chex.assert_shape(contexts.tokens, (num, task.prompt_length))
  chex.assert_shape(rows.tokens, (num, task.response_length))
  chex.assert_shape([contexts.length, rows.length, prompts.id], (num,))
  for leaf in jax.tree.leaves((task.data, prompts, contexts)):
    assert leaf.dtype == jnp.int32
  outcome = verify(prompts, rows)
  chex.assert_shape([outcome.reward, outcome.status], (num,))
  assert outcome.reward.dtype == jnp.float32
  assert outcome.status.dtype == jnp.int32
  assert task.stop_tokens == (vocabulary.STOP,)
  assert contexts.tokens.max() < task.vocab_size


@pytest.mark.parametrize("name", NAMES)
def test_contexts_are_padded_and_start(name):
  task, _, contexts, _, _ = solved(name)
  after = np.arange(task.prompt_length)[None, :] >= contexts.length[:, None]
  assert not contexts.tokens[after].any()
  assert contexts.tokens[~after].all()
  assert (contexts.tokens[:, 0] == vocabulary.START).all()
  assert contexts.length.max() == task.prompt_length


@pytest.mark.parametrize("name", NAMES)
def test_pools_share_out_distinct_prompts(name):
  task = solved(name)[0]
  both = np.concatenate([task.train_pool, task.eval_pool])
  assert sorted(both.tolist()) == list(range(len(task.grade)))
  assert task.train_pool.size > task.eval_pool.size > 0
  assert task.train_pool.dtype == task.eval_pool.dtype == np.int32
  texts = cases.prompt_texts(task)
  assert len(set(texts)) == len(texts)
  for pool in (task.train_pool, task.eval_pool):
    assert set(task.grade[pool]) == set(range(len(task.grades)))


@pytest.mark.parametrize("name", NAMES)
def test_prompts_gathers_rows_and_counts_occurrences(name):
  task, every, contexts, _, _ = solved(name)
  ids = jnp.array([7, -1, 3, 7, -1, 7], jnp.int32)
  prompts, chosen = jax.jit(task.prompts)(task.data, ids)
  chex.assert_trees_all_equal((prompts, chosen), task.prompts(task.data, ids))
  assert prompts.id.tolist() == [7, -1, 3, 7, -1, 7]
  assert prompts.occurrence.tolist() == [0, 0, 0, 1, 0, 2]
  rows = np.array([0, 2, 3, 5])  # Those with a prompt.
  expected = np.array([7, 3, 7, 7])
  chex.assert_trees_all_equal(
    jax.tree.map(lambda x: x[rows], (prompts.data, chosen)),
    jax.tree.map(lambda x: x[expected], (every.data, contexts)),
  )


@pytest.mark.parametrize("name", NAMES)
def test_solutions_verify(name):
  task, prompts, _, rows, verify = solved(name)
  outcome = verify(prompts, rows)
  assert (outcome.reward == 1).all()
  assert (outcome.status == types.SCORED).all()
  ends = rows.tokens[np.arange(len(task.grade)), rows.length - 1]
  assert (ends == vocabulary.STOP).all()


@pytest.mark.parametrize("name", IN_GRAPH)
def test_jit_equals_eager_and_compiles_once(name):
  task, prompts, _, rows, verify = solved(name)
  chex.assert_trees_all_equal(verify(prompts, rows), task.verify(prompts, rows))
  before = verify._cache_size()
  verify(prompts, rows.replace(tokens=rows.tokens + 1))
  assert verify._cache_size() == before


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(IN_GRAPH)))
def test_host_verifiers_do_not_trace(name):
  task, prompts, _, rows, _ = solved(name)
  with pytest.raises(jax.errors.TracerArrayConversionError):
    jax.jit(task.verify)(prompts, rows)


@pytest.mark.parametrize("name", NAMES)
def test_changed_solutions_are_wrong(name):
  rows = solved(name)[3]
  # In each row another first digit: no answer keeps its worth.
  digit = (rows.tokens >= vocabulary.ZERO) & (
    rows.tokens < vocabulary.ZERO + 10
  )
  first = digit & (jnp.cumsum(digit, axis=1) == 1)
  other = vocabulary.ZERO + (rows.tokens - vocabulary.ZERO + 1) % 10
  assert (first.sum(1) == 1).all()
  outcome = rewards(name, tokens=jnp.where(first, other, rows.tokens))
  assert not outcome.reward.any()
  assert (outcome.status == types.SCORED).all()


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_row_is_wrong_but_scored(name):
  rows = solved(name)[3]
  outcome = rewards(
    name,
    tokens=jnp.zeros_like(rows.tokens),
    length=jnp.zeros_like(rows.length),
    stopped=jnp.zeros_like(rows.stopped),
  )
  assert not outcome.reward.any()
  assert (outcome.status == types.SCORED).all()


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_were_cut_off(name):
  task, _, _, rows, _ = solved(name)
  # The whole answer without its stop token: wrong in the graph; on the host
  # it is the scorer's to judge, and this one compares texts.
  cut = rows.length - 1
  inside = jnp.arange(rows.tokens.shape[1])[None, :] < cut[:, None]
  tokens = jnp.where(inside, rows.tokens, 0)
  for stopped in (False, True):  # at the limit; by a hook
    outcome = rewards(
      name,
      tokens=tokens,
      length=cut,
      stopped=jnp.full_like(rows.stopped, stopped),
    )
    assert (outcome.reward == float(not task.jittable)).all()
    assert (outcome.status == types.SCORED).all()


@pytest.mark.parametrize("name", IN_GRAPH)
def test_only_what_ends_on_its_stop_token_is_right(name):
  task, _, _, rows, _ = solved(name)
  outcome = rewards(name, stopped=jnp.zeros_like(rows.stopped))
  assert not outcome.reward.any()
  # One token shorter or longer; the buffer holds the whole answer either way.
  outcome = rewards(name, length=rows.length - 1)
  assert not outcome.reward.any()
  longer = jnp.minimum(rows.length + 1, task.response_length)
  outcome = rewards(name, length=longer)
  np.testing.assert_array_equal(outcome.reward, longer == rows.length)


@pytest.mark.parametrize("name", NAMES)
def test_stop_first_is_wrong_but_scored(name):
  _, _, _, rows, _ = solved(name)
  tokens = jnp.zeros_like(rows.tokens).at[:, 0].set(vocabulary.STOP)
  outcome = rewards(name, tokens=tokens, length=jnp.ones_like(rows.length))
  assert not outcome.reward.any()
  assert (outcome.status == types.SCORED).all()


@pytest.mark.parametrize("name", NAMES)
def test_pad_inside_a_row_does_not_end_it(name):
  task, prompts, _, rows, verify = solved(name)
  # The answer with a pad token before or after its first character.
  fits = rows.length < task.response_length
  assert fits.any()
  grown = jnp.where(fits, rows.length + 1, rows.length)
  pads = jnp.zeros_like(rows.tokens[:, :1])
  for tokens in (
    jnp.concatenate([pads, rows.tokens[:, :-1]], 1),
    jnp.concatenate([rows.tokens[:, :1], pads, rows.tokens[:, 1:-1]], 1),
  ):
    row = rows.replace(
      tokens=jnp.where(fits[:, None], tokens, rows.tokens), length=grown
    )
    outcome = verify(prompts, row)
    np.testing.assert_array_equal(outcome.reward, ~fits)
    assert (outcome.status == types.SCORED).all()


@pytest.mark.parametrize("name", NAMES)
def test_what_follows_a_row_is_not_read(name):
  task, prompts, _, rows, verify = solved(name)
  inside = jnp.arange(task.response_length)[None, :] < rows.length[:, None]
  garbage = jax.random.randint(KEY, inside.shape, 0, task.vocab_size)
  dirty = rows.replace(tokens=jnp.where(inside, rows.tokens, garbage))
  assert (verify(prompts, dirty).reward == 1).all()


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_do_not_exist_are_aborted(name):
  rows = solved(name)[3]
  valid = jnp.arange(len(rows.length)) % 3 != 0
  # Such a row may hold anything: a right answer, or no prompt at all.
  for group in (rows.group, jnp.where(valid, rows.group, 10**6)):
    outcome = rewards(name, valid=valid, group=group)
    np.testing.assert_array_equal(outcome.reward, valid)
    np.testing.assert_array_equal(outcome.status == types.ABORTED, ~valid)
    np.testing.assert_array_equal(outcome.status == types.SCORED, valid)


@pytest.mark.parametrize("name", NAMES)
def test_group_says_which_prompt_is_answered(name):
  _, prompts, _, rows, verify = solved(name)
  order = jax.random.permutation(KEY, len(rows.length))
  moved = jax.tree.map(lambda x: x[order], rows)
  assert (verify(prompts, moved).reward == 1).all()
  # Answers under the next prompt: right only where the two prompts share one.
  shifted = moved.replace(group=(moved.group + 1) % len(order))
  assert verify(prompts, shifted).reward.mean() < 0.5


@pytest.mark.parametrize("name", NAMES)
def test_the_same_call_gives_the_same_task(name):
  first, second = first_of(name), cases.TASKS[name]()
  chex.assert_trees_all_equal(first.data, second.data)
  np.testing.assert_array_equal(first.eval_pool, second.eval_pool)


@pytest.mark.parametrize("name", IN_GRAPH)
def test_rows_stay_where_they_are_sharded(name):
  _, prompts, _, rows, verify = solved(name)
  auto = (jax.sharding.AxisType.Auto,)
  mesh = jax.make_mesh((8,), ("data",), axis_types=auto)
  by_row = jax.sharding.NamedSharding(mesh, jax.P("data"))
  rows = jax.device_put(jax.tree.map(lambda x: x[:32], rows), by_row)
  everywhere = jax.sharding.NamedSharding(mesh, jax.P())
  outcome = verify(jax.device_put(prompts, everywhere), rows)
  assert (outcome.reward == 1).all()
  assert outcome.reward.sharding.is_equivalent_to(by_row, 1)
  assert outcome.status.sharding.is_equivalent_to(by_row, 1)
