"""LoRA: the base at the start, merged == apart, gradient and state, a step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import models, parallel, recipes, train, types
from jaxroll.models import lora
from tests.models import tiny
from tests.train import tiny as run

TARGETS = ("q", "k", "v", "o", "gate", "up", "down")
TOKENS = jax.random.randint(jax.random.key(5), (3, 7), 0, tiny.VOCAB)
POSITIONS = jnp.broadcast_to(jnp.arange(7), (3, 7))
BASE = models.policy(tiny.config(**tiny.EVERYTHING))
FROZEN = tiny.network(**tiny.EVERYTHING)[1]


def adapted(rank=3, alpha=6.0, frozen=FROZEN, b=0.1):
  """A policy with all adapters, and noise on B."""
  lm = lora.policy(BASE, frozen, rank=rank, alpha=alpha, targets=TARGETS)
  params = lm.init(jax.random.key(1))

  def noisy(path, leaf):
    key = jax.random.key(sum(map(ord, jax.tree_util.keystr(path))))
    return leaf + b * jax.random.normal(key, leaf.shape)

  return lm, jax.tree_util.tree_map_with_path(noisy, params)


def logits(lm, params):
  hidden, _ = lm.apply(params, TOKENS, POSITIONS)
  return lm.unembed(params, hidden)


def test_it_starts_as_the_base_to_the_bit():
  lm, params = adapted(b=0.0)
  np.testing.assert_array_equal(logits(lm, params), logits(BASE, FROZEN))


def test_merged_is_the_same_policy():
  lm, params = adapted()
  apart = logits(lm, params)
  assert jnp.max(jnp.abs(apart - logits(BASE, FROZEN))) > 0.1
  merged = lora.merge(FROZEN, params, alpha=6.0)
  assert jax.tree.structure(merged) == jax.tree.structure(FROZEN)
  for other in (merged, params | {"base": FROZEN}, lm.prepare(params)):
    np.testing.assert_allclose(logits(lm, other), apart, atol=1e-5, rtol=1e-5)
  np.testing.assert_allclose(logits(BASE, merged), apart, atol=1e-5, rtol=1e-5)


def test_merging_by_hand():
  # A = [[1], [2]], B = [[3, 5]], scale 4 / 1: W + 4 [[3, 5], [6, 10]].
  frozen = {"layers": {"q": {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}}}
  own = {"lora_a": jnp.array([[1.0], [2.0]]), "lora_b": jnp.array([[3.0, 5.0]])}
  merged = lora.merge(frozen, {"adapters": {"layers": {"q": own}}}, alpha=4.0)
  expected = {"kernel": [[13, 21], [25, 41]], "bias": [1, 1]}
  for name, value in expected.items():
    np.testing.assert_array_equal(merged["layers"]["q"][name], value)


def test_decoding_agrees_with_one_forward_pass():
  lm, params = adapted()
  expected = logits(lm, params)
  cache, prepared = lm.init_cache(3, 7), lm.prepare(params)
  assert "lora_a" not in str(jax.tree.structure(prepared))
  for t in range(7):
    at = slice(t, t + 1)
    hidden, cache = lm.apply(
      prepared, TOKENS[:, at], POSITIONS[:, at], cache, t
    )
    np.testing.assert_allclose(
      lm.unembed(prepared, hidden)[:, 0], expected[:, t], atol=2e-5, rtol=2e-5
    )


def test_a_narrow_base_keeps_small_updates():
  frozen = lora.freeze(FROZEN)
  kernel = frozen["layers"]["q"]["kernel"]
  assert kernel.dtype == jnp.bfloat16
  assert frozen["final_norm"]["scale"].dtype == jnp.float32
  lm, params = adapted(frozen=frozen, b=1e-4)
  expected = logits(lm, params)
  start = logits(BASE, frozen)
  moved = jnp.max(jnp.abs(expected - start))
  prepared = logits(lm, lm.prepare(params))
  assert jnp.max(jnp.abs(prepared - expected)) < 0.05 * moved
  merged = lora.merge(frozen, params, alpha=6.0)
  assert merged["layers"]["q"]["kernel"].dtype == jnp.bfloat16


def test_gradient_of_the_adapters_only():
  lm, params = adapted()

  def loss(params):
    return jnp.sum(logits(lm, params) ** 2)

  grads = jax.grad(loss)(params)
  assert set(grads) == {"adapters"}
  for leaf in jax.tree.leaves(grads):
    assert jnp.all(jnp.isfinite(leaf)) and jnp.any(leaf != 0)
  # d logits / d W through the merged kernel: dA = s dW B^T, dB = s A^T dW.
  merged = lora.merge(FROZEN, params, alpha=6.0)
  wide = jax.grad(lambda p: jnp.sum(logits(BASE, p) ** 2))(merged)
  for name in TARGETS:
    own = params["adapters"]["layers"][name]
    found = grads["adapters"]["layers"][name]
    dw = np.asarray(wide["layers"][name]["kernel"])
    a, b = (np.asarray(own[key]) for key in ("lora_a", "lora_b"))
    for key, expected in (
      ("lora_a", 2.0 * dw @ b.swapaxes(1, 2)),
      ("lora_b", 2.0 * a.swapaxes(1, 2) @ dw),
    ):
      scale = np.abs(expected).max()
      np.testing.assert_allclose(found[key], expected, atol=1e-4 * scale)


@pytest.mark.parametrize(
  "changes, message",
  [
    ({"targets": ("q", "query")}, "targets=.*down.*gate"),
    ({"targets": ()}, "at least one"),
    ({"rank": 0}, r"rank=0: must be in \[1, 8\]"),
    ({"rank": 9, "targets": ("v",)}, r"rank=9: must be in \[1, 8\]"),
    ({"alpha": 0.0}, "alpha=0.0"),
    ({"alpha": float("inf")}, "alpha=inf"),
  ],
)
def test_refusals(changes, message):
  with pytest.raises(ValueError, match=message):
    lora.policy(BASE, FROZEN, **changes)


def test_a_base_of_no_modules_is_refused():
  own = types.Policy(
    init=lambda key: {"q": {"kernel": jnp.ones((4, 4))}},
    apply=lambda params, tokens, at, cache=None, column=None: (
      params["q"]["kernel"][tokens],
      None,
    ),
    unembed=lambda params, hidden: hidden,
    init_cache=lambda rows, columns: None,
  )
  with pytest.raises(ValueError, match="'q'.*not flax modules"):
    lora.policy(own, rank=1, targets=("q",))


# --- training


@pytest.fixture(scope="module")
def frozen():
  return run.params()


def start(rules, frozen, **options):
  lm = lora.policy(run.POLICY, frozen, rank=2, targets=("q", "v"))
  state = train.init_state(
    rules, lm, run.OPTIMISER, run.SIZES, jax.random.key(0)
  )
  return state.replace(frozen=state.frozen | options)


def make(rules, mesh=None, task=run.TASK):
  def of(lm):
    return train.make_step(
      rules,
      task,
      lm,
      run.OPTIMISER,
      run.SIZES,
      slots=16,
      micro_rows=16,
      mesh=mesh,
    )

  return of


def trained(step, state, steps=2):
  for _ in range(steps):
    state, output = step(state, run.TASK.data, run.SETTINGS)
  return state, jax.device_get(output.metrics)


def test_a_step_trains_the_adapters_and_nothing_else(frozen):
  rules = recipes.uniform(run.SIZES)
  state = start(rules, frozen)
  sizes = [x.size for x in jax.tree.leaves(state.learners)]
  assert sum(sizes) < sum(x.size for x in jax.tree.leaves(frozen))
  lm = lora.policy(run.POLICY, frozen, rank=2, targets=("q", "v"))
  step = jax.jit(train.fused(make(rules)(lm), run.TASK))
  after, metrics = trained(step, state)
  assert metrics["grad_norm"] > 0 and metrics["sampler_gap_max"] < 1e-4
  for old, new in zip(*map(jax.tree.leaves, (state.learners, after.learners))):
    assert old.shape == new.shape
  b = after.learners["policy"].params["adapters"]["layers"]["q"]["lora_b"]
  assert jnp.any(b != 0)

  # The base in the state instead of in the program: the same training.
  bound = lora.bind(make(rules), run.POLICY, rank=2, targets=("q", "v"))
  step = jax.jit(train.fused(bound, run.TASK), donate_argnums=0)
  other, _ = trained(step, start(rules, frozen, base=run.copy(frozen)))
  assert run.same(other.frozen["base"], frozen)
  run.close(other.learners["policy"].params, after.learners["policy"].params)


@pytest.mark.parametrize("hosted", [False, True])
def test_a_sharded_base(frozen, hosted):
  rules = recipes.uniform(run.SIZES)._replace(reference=True)
  mesh = parallel.make_mesh(1, 2, 1, devices=jax.devices()[:2])
  state = start(rules, frozen, base=lora.freeze(frozen))
  state = jax.device_put(state, parallel.shardings(state, mesh))
  base = state.frozen["base"]["layers"]["q"]["kernel"]
  assert not base.sharding.is_fully_replicated
  task = run.HOST_TASK if hosted else run.TASK
  options = dict(rank=2, targets=("q", "v"))
  bound = lora.bind(make(rules, mesh, task), run.POLICY, **options)
  step = (
    train.hosted(bound, task) if hosted else jax.jit(train.fused(bound, task))
  )
  after, metrics = trained(step, state, steps=1)
  assert metrics["grad_norm"] > 0 and metrics["sampler_gap_max"] < 1e-4
  kept = after.frozen["base"]["layers"]["q"]["kernel"]
  assert kept.dtype == jnp.bfloat16 and kept.sharding == base.sharding


def test_merged_on_export(tmp_path):
  config = tiny.config(qk_norm=True)
  base = models.policy(config)
  weights = base.init(jax.random.key(2))
  lm = lora.policy(base, weights, rank=2)
  params = jax.tree.map(lambda x: x + 0.1, lm.init(jax.random.key(3)))
  merged = lora.merge(weights, params, alpha=16.0)
  made = models.Pretrained(config, jax.device_get(merged), None)
  folder = models.export(tmp_path / "it", made)
  read = models.load(folder).params
  assert jnp.any(
    read["layers"]["q"]["kernel"] != weights["layers"]["q"]["kernel"]
  )
  run.close(read, merged)
