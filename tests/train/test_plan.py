"""What a recipe's selection may read, and how a mixture fills a step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import recipes, train, types
from jaxroll.train import prompts
from tests.train import tiny

UNIFORM = recipes.uniform(tiny.SIZES)
# Two sources: every fourth prompt is of the second.
SOURCE = (np.arange(tiny.SIZES.num_ids) % 4 == 3).astype(np.int32)
TASK = tiny.TASK._replace(source=SOURCE)


def one_step(rules, steps=1):
  step = jax.jit(train.fused(tiny.make(rules, task=TASK), TASK))
  state, outputs = tiny.state(rules), []
  for _ in range(steps):
    state, output = step(state, TASK.data, tiny.SETTINGS)
    outputs.append(jax.device_get(output))
  return state, outputs


def by_score(stats, pool, *, num, blocked=None, quota=None, key):
  """The lowest ids, as many of each source as the quota says."""
  del stats, blocked, key
  of = quota.source[pool]
  rank = jnp.take_along_axis(
    jnp.stack([jnp.cumsum(of == k) - 1 for k in range(2)]), of[None], axis=0
  )[0]
  score = jnp.where(rank < quota.count[of], 1.0, 0.0)
  return pool[jax.lax.top_k(score, num)[1]]


def test_weights_of_a_mixture_become_a_quota():
  def mostly_second(*, step, key):
    del step, key
    return jnp.array([0.25, 0.75], jnp.float32)

  rules = UNIFORM._replace(mixture=mostly_second, select=(by_score,))
  _, (output,) = one_step(rules)
  np.testing.assert_array_equal(
    np.bincount(SOURCE[output.prompts.id], minlength=2), [2, 6]
  )


def test_a_quota_asks_for_no_more_than_there_is():
  """32 training prompts, 8 of the second source, and a step takes 8."""

  def only_second(*, step, key):
    del step, key
    return jnp.array([0.0, 1.0], jnp.float32)

  few = np.where(np.arange(SOURCE.size) < 4, SOURCE, 0).astype(np.int32)
  task = TASK._replace(source=few)
  rules = UNIFORM._replace(mixture=only_second, select=(by_score,))
  step = tiny.make(rules, task=task)
  draft = jax.jit(step.begin)(tiny.state(rules), task.data)
  np.testing.assert_array_equal(
    np.bincount(few[np.asarray(draft.prompts.id)], minlength=2), [7, 1]
  )


def test_a_mixture_with_a_memory_sees_the_sources():
  def init(sizes, *, key):
    del sizes, key
    return jnp.zeros(2, jnp.float32)

  def apply(state, *, step, key):
    del step, key
    return (state + 1) / jnp.sum(state + 1), state

  def update(state, source, group, valid):
    return state.at[source[group]].add(valid.astype(jnp.float32))

  rules = UNIFORM._replace(
    mixture=types.Method(init, apply, update), select=(by_score,)
  )
  state, outputs = one_step(rules, steps=2)
  shares = [np.mean(SOURCE[out.prompts.id]) for out in outputs]
  assert shares == [0.5, 0.5]  # 16 rows of each: the weights stay equal
  np.testing.assert_array_equal(state.methods["mixture"], [32, 32])


def test_entropy_of_prompts_is_the_policys():
  """Mean over a prompt's tokens of -sum p log p, computed in numpy."""
  ids = jnp.arange(5, dtype=jnp.int32)
  _, contexts = tiny.TASK.prompts(tiny.TASK.data, ids)
  params = tiny.params()
  found = prompts.entropy(tiny.POLICY, params, contexts, micro_rows=2)
  for number in range(5):
    length = int(contexts.length[number])
    tokens = contexts.tokens[number : number + 1, :length]
    positions = jnp.arange(length, dtype=jnp.int32)[None]
    hidden, _ = tiny.POLICY.apply(params, tokens, positions)
    logits = np.asarray(tiny.POLICY.unembed(params, hidden), np.float64)[0]
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    expected = np.mean(-np.sum(p * np.log(p), axis=-1))
    assert found[number] == pytest.approx(expected, rel=1e-4)


def test_selection_reads_features_and_entropies():
  seen = {}

  def narrow(stats, pool, feature, *, key):
    del stats, key
    seen["feature"] = feature.shape
    return pool[:10]

  def uncertain(stats, pool, prompt_entropy, *, num, key):
    del stats, key
    seen["entropy"] = prompt_entropy.shape
    return pool[jax.lax.top_k(prompt_entropy, num)[1]]

  _, (output,) = one_step(UNIFORM._replace(select=(narrow, uncertain)))
  assert seen == {"feature": (40, 32), "entropy": (10,)}
  assert set(output.prompts.id) <= set(tiny.TASK.train_pool[:10].tolist())


def test_features_of_a_task_are_its_own_or_of_its_tokens():
  own = np.eye(tiny.SIZES.num_ids, dtype=np.float32)
  np.testing.assert_array_equal(
    prompts.feature(TASK._replace(feature=own)), own
  )
  made = prompts.feature(TASK)
  np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, rtol=1e-5)
  digits = [
    set(TASK.decode(row[:n])) & set("0123456789")
    for row, n in zip(TASK.data.prompt, TASK.data.prompt_length)
  ]
  closeness = made @ made.T
  shared = [[len(a & b) for b in digits] for a in digits]
  off = ~np.eye(len(digits), dtype=bool)
  near, far = (off & (np.array(shared) == n) for n in (2, 0))
  assert near.any() and far.any()
  assert closeness[near].mean() > closeness[far].mean() + 0.1


def test_an_estimator_may_read_beliefs_of_the_steps_prompts():
  def against_belief(reward, group, stats, *, num_groups, valid):
    assert stats.alpha.shape == (num_groups,)
    mean = stats.alpha / (stats.alpha + stats.beta)
    return jnp.where(valid, reward - mean[group], 0.0)

  rules = UNIFORM._replace(advantage=(against_belief,))
  state, _ = one_step(rules)
  assert int(state.step) == 1
