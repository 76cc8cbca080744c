"""AdamW and SGD: schedule, clipping, guard, updates of one length."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxroll import train, types

PARAMS = {"w": jnp.array([1.0, -2.0])}
GRADS = {"w": jnp.array([3.0, 4.0])}  # norm 5


def steps(optimiser, grads=GRADS, number=1, params=PARAMS):
  """Parameters after each of some steps, and the last learner."""
  learner = types.Learner(params, optimiser.init(params))
  apply = jax.jit(
    lambda learner: train.apply_gradients(optimiser, learner, grads)
  )
  path = [learner.params["w"]]
  for _ in range(number):
    learner = apply(learner)
    path.append(learner.params["w"])
  return np.asarray(path), learner


def test_first_step_is_the_learning_rate_against_the_sign():
  path, _ = steps(train.adamw(0.1))
  np.testing.assert_allclose(path[1] - path[0], [-0.1, -0.1], rtol=1e-4)


def test_weight_decay_is_decoupled():
  path, _ = steps(train.adamw(0.1, weight_decay=0.5))
  # -0.1 sign(g) - 0.1 * 0.5 w
  np.testing.assert_allclose(path[1] - path[0], [-0.15, 0.0], atol=1e-5)


def test_schedule_rises_falls_and_stays():
  """Constant gradients: Adam's step is the rate."""
  optimiser = train.adamw(
    0.1, warmup_steps=2, total_steps=6, final_scale=0.5, clip_norm=None
  )
  path, _ = steps(optimiser, number=9)
  rates = -np.diff(path[:, 0])
  expected = [0, 0.05, 0.1, 0.0875, 0.075, 0.0625, 0.05, 0.05, 0.05]
  np.testing.assert_allclose(rates, expected, rtol=1e-3, atol=1e-6)
  path, _ = steps(train.adamw(0.1, clip_norm=None), number=4)
  np.testing.assert_allclose(-np.diff(path[:, 0]), 0.1, rtol=1e-3)


@pytest.mark.parametrize("clip, scale", [(1.0, 0.2), (10.0, 1.0), (None, 1.0)])
def test_clipping_is_by_the_global_norm(clip, scale):
  _, learner = steps(train.adamw(0.1, b1=0.0, clip_norm=clip))
  moments = [
    leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(learner.opt_state)
    if "mu" in jax.tree_util.keystr(path)
  ]
  np.testing.assert_allclose(moments[0], scale * GRADS["w"], rtol=1e-5)


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_non_finite_gradients_change_nothing_but_a_count(bad):
  optimiser = train.adamw(0.1, warmup_steps=3)
  grads = {"w": jnp.array([1.0, bad])}
  path, learner = steps(optimiser, grads, number=20)
  np.testing.assert_array_equal(path, np.tile(path[:1], (21, 1)))
  assert int(learner.opt_state.total_notfinite) == 20
  fresh = optimiser.init(PARAMS).inner_state
  for a, b in zip(
    *map(jax.tree.leaves, (learner.opt_state.inner_state, fresh))
  ):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
  "arguments, message",
  [
    (dict(learning_rate=0), "learning_rate=0: must be greater than 0"),
    (dict(learning_rate=float("nan")), "learning_rate=nan"),
    (dict(clip_norm=0), "clip_norm=0: > 0, or None"),
    (dict(final_scale=1.5), r"final_scale=1.5: must be in \[0, 1\]"),
    (dict(warmup_steps=-1), "warmup_steps=-1: must be at least 0"),
    (dict(weight_decay=-0.1), "weight_decay=-0.1: must be at least 0"),
    (dict(b1=1.0), r"b1=1.0: must be in \[0, 1\)"),
    (dict(b2=-0.5), r"b2=-0.5: must be in \[0, 1\)"),
    (
      dict(total_steps=3, warmup_steps=3),
      "total_steps=3 must exceed warmup_steps=3",
    ),
  ],
)
def test_numbers_out_of_range(arguments, message):
  with pytest.raises(ValueError, match=message):
    train.adamw(**{"learning_rate": 0.1} | arguments)


def test_sgd_is_the_rate_times_the_gradient():
  path, _ = steps(train.sgd(0.1))
  np.testing.assert_allclose(path[1] - path[0], [-0.3, -0.4], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
@pytest.mark.parametrize(
  "optimiser", [train.sgd(0.1, update_norm=0.5), train.unit_norm(0.5)]
)
def test_a_matched_update_has_its_length_whatever_the_gradient(
  optimiser, scale
):
  grads = {"w": scale * GRADS["w"]}
  updates, _ = optimiser.update(grads, optimiser.init(PARAMS), PARAMS)
  # 0.5 * [3, 4] / 5
  np.testing.assert_allclose(np.abs(updates["w"]), [0.3, 0.4], rtol=1e-5)


def test_the_length_is_over_all_parameters():
  grads = {"a": jnp.array([3.0]), "b": jnp.array([[0.0, -4.0]])}
  updates, _ = train.unit_norm(10.0).update(grads, optax.EmptyState())
  np.testing.assert_allclose(updates["a"], [6.0], rtol=1e-6)
  np.testing.assert_allclose(updates["b"], [[0.0, -8.0]], rtol=1e-6)


def test_a_matched_rate_and_schedule_have_no_effect():
  paths = [
    steps(train.adamw(rate, warmup_steps=0, update_norm=0.1), number=3)[0]
    for rate in (1e-3, 1.0)
  ]
  np.testing.assert_allclose(paths[0], paths[1], rtol=1e-5)
  norms = np.linalg.norm(np.diff(paths[0], axis=0), axis=1)
  np.testing.assert_allclose(norms, 0.1, rtol=1e-4)


def test_no_gradient_is_no_update():
  zero = {"w": jnp.zeros(2)}
  path, learner = steps(train.sgd(0.1, update_norm=0.5), zero)
  np.testing.assert_array_equal(path[1], path[0])
  assert int(learner.opt_state.total_notfinite) == 0


def test_a_matched_update_is_guarded_too():
  path, learner = steps(
    train.sgd(0.1, update_norm=0.5), {"w": jnp.array([1.0, jnp.nan])}
  )
  np.testing.assert_array_equal(path[1], path[0])
  assert int(learner.opt_state.total_notfinite) == 1


@pytest.mark.parametrize(
  "make, message",
  [
    (lambda: train.sgd(0.0), "learning_rate=0.0: must be greater than 0"),
    (lambda: train.sgd(0.1, update_norm=0.0), "update_norm=0.0: finite and"),
    (lambda: train.adamw(0.1, update_norm=-1.0), "update_norm=-1.0: finite"),
    (lambda: train.unit_norm(0.0), "norm=0.0: must be finite and greater"),
    (lambda: train.unit_norm(float("inf")), "norm=inf: must be finite"),
  ],
)
def test_lengths_out_of_range(make, message):
  with pytest.raises(ValueError, match=message):
    make()
