"""The objectives against slow transcriptions of their equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import numerics, objective

# Ratios inside, above and below the bounds [0.8, 1.25], and far above.
RATIO = np.array([[1.1, 1.5, 0.5, 6.0], [1.1, 1.5, 0.5, 6.0]])
ADV = np.array([2.0, -3.0])
WEIGHT = np.array([[1.0, 0.5, 2.0, 1.0], [1.5, 1.0, 0.25, 1.0]])
LOW, HIGH = 0.8, 1.25
ANCHOR = np.array([[-1.0, -2.0, -0.5, -3.0], [-0.1, -4.0, -1.5, -2.0]])
LOGP = ANCHOR + np.log(RATIO)
MASK = np.ones((2, 4), bool)


def call(fn, logp=LOGP, adv=ADV, mask=MASK, low=LOW, high=HIGH, **hyper):
  """loss and aux of a clipped objective."""
  columns = [logp, ANCHOR, adv, low + 0 * ANCHOR, high + 0 * ANCHOR, WEIGHT]
  columns = [jnp.asarray(x, jnp.float32) for x in columns]
  return fn(*columns, jnp.asarray(mask), **hyper)


def gradient(fn, *arguments, **hyper):
  """Of sum(loss) to logp."""

  def total(logp):
    return call(fn, logp, *arguments, **hyper)[0].sum()

  return jax.grad(total)(jnp.asarray(LOGP, jnp.float32))


@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_ppo_clip_is_its_equation(dual_clip):
  expected, inner = np.zeros((2, 4)), np.zeros((2, 4))
  for i in range(2):
    for t in range(4):
      plain = RATIO[i, t] * ADV[i]
      value = min(plain, float(np.clip(RATIO[i, t], LOW, HIGH)) * ADV[i])
      if dual_clip is not None and ADV[i] < 0:
        value = max(value, dual_clip * ADV[i])
      expected[i, t] = -WEIGHT[i, t] * value
      # d ratio / d logp = ratio, where no bound replaced the ratio.
      inner[i, t] = -WEIGHT[i, t] * plain if value == plain else 0.0
  loss, aux = call(objective.ppo_clip, dual_clip=dual_clip)
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  np.testing.assert_allclose(
    gradient(objective.ppo_clip, dual_clip=dual_clip), inner, rtol=1e-5
  )
  np.testing.assert_array_equal(aux["clipped"], (inner == 0).astype(float))


def test_ppo_clip_acts_on_the_side_that_the_advantage_pushes_to():
  _, aux = call(objective.ppo_clip)
  np.testing.assert_array_equal(aux["clipped"], [[0, 1, 0, 1], [0, 0, 1, 0]])
  _, aux = call(objective.ppo_clip, dual_clip=3.0)
  np.testing.assert_array_equal(aux["clipped"], [[0, 1, 0, 1], [0, 0, 1, 1]])
  _, aux = call(objective.ppo_clip, adv=np.zeros(2))
  np.testing.assert_array_equal(aux["clipped"], np.zeros((2, 4)))


def test_cispo_keeps_the_gradient_of_every_token():
  bound = np.clip(RATIO, LOW, HIGH)
  slope = -WEIGHT * bound * ADV[:, None]
  loss, aux = call(objective.cispo)
  np.testing.assert_allclose(loss, slope * LOGP, rtol=1e-5)
  np.testing.assert_allclose(gradient(objective.cispo), slope, rtol=1e-5)
  np.testing.assert_array_equal(aux["clipped"], [[0, 1, 1, 1]] * 2)


def test_reinforce_is_its_equation():
  logp, adv, weight = (jnp.asarray(x, jnp.float32) for x in (LOGP, ADV, WEIGHT))
  loss, aux = objective.reinforce(logp, adv, weight, jnp.asarray(MASK))
  np.testing.assert_allclose(loss, -WEIGHT * ADV[:, None] * LOGP, rtol=1e-6)
  assert aux == {}


def test_gspo_is_its_equation():
  s = np.exp(np.log(RATIO).mean(axis=1))  # (1.1 * 1.5 * 0.5 * 6)^(1/4) = 1.49
  loss, aux = call(objective.gspo)
  value = np.array([min(s[0], HIGH) * ADV[0], max(s[1], LOW) * ADV[1]])
  np.testing.assert_allclose(loss, -WEIGHT * value[:, None], rtol=1e-5)
  np.testing.assert_array_equal(aux["clipped"], [[1] * 4, [0] * 4])


def test_gspo_token_has_gspos_gradient():
  """Equal to the gradient of the row's own surrogate -s A, mean over tokens."""
  mask = np.array([[1, 1, 0, 1], [0, 1, 0, 0]], bool)
  weights = objective.aggregate.sequence_mean(jnp.asarray(mask))
  shares = np.asarray(weights) / np.where(mask, WEIGHT, 1.0)

  def total(logp):
    loss, _ = call(objective.gspo, logp, mask=mask, low=0.0, high=np.inf)
    return (jnp.asarray(shares) * loss).sum()

  def paper(logp):
    gap = jnp.where(mask, logp - jnp.asarray(ANCHOR, jnp.float32), 0.0)
    s = jnp.exp(gap.sum(axis=1) / mask.sum(axis=1).astype(np.float32))
    return -(s * jnp.asarray(ADV, jnp.float32)).mean()

  logp = jnp.asarray(LOGP, jnp.float32)
  np.testing.assert_allclose(total(logp), paper(logp), rtol=1e-5)
  np.testing.assert_allclose(
    jax.grad(total)(logp), jax.grad(paper)(logp), rtol=1e-5
  )


def test_gspo_takes_the_tightest_bounds_of_the_row():
  low = np.array([[0.5, 0.9, 0.99, 0.8]] * 2)
  high = np.array([[1.5, 1.2, 1.01, 1.3]] * 2)
  mask = np.array([[1, 1, 0, 1]] * 2, bool)
  loss, _ = call(objective.gspo, adv=np.ones(2), mask=mask, low=low, high=high)
  # s = (1.1 * 1.5 * 6)^(1/3) = 2.1 is cut to 1.2; the third token is masked.
  np.testing.assert_allclose(loss, -1.2 * WEIGHT * mask, rtol=1e-5)


@pytest.mark.parametrize("name", ["ppo_clip", "gspo", "cispo"])
@pytest.mark.parametrize("gap", [1e4, -1e4])
def test_a_huge_log_ratio_stays_finite(name, gap):
  fn = getattr(objective, name)
  far = {"logp": ANCHOR + gap, "low": 0.0, "high": np.inf}
  assert np.all(np.isfinite(call(fn, **far)[0]))

  def total(logp):
    return call(fn, logp, low=0.0, high=np.inf)[0].sum()

  assert np.all(np.isfinite(jax.grad(total)(jnp.asarray(far["logp"]))))


@pytest.mark.parametrize(
  "estimator, direction",
  # Exact gradients to the logits z of p = softmax(z), reference q:
  # KL(p||q): p (log(p/q) - KL(p||q));  KL(q||p): p - q.
  [(numerics.k2, "policy first"), (numerics.k3, "reference first")],
)
def test_which_divergence_an_estimators_gradient_belongs_to(
  estimator, direction
):
  p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
  log_ratio = np.log(p / q)
  exact = {
    "policy first": p * (log_ratio - p @ log_ratio),
    "reference first": p - q,
  }[direction]
  ref_logp = jnp.asarray(np.log(q), jnp.float32)[:, None]
  mask = jnp.ones((3, 1), bool)

  def expected_loss(logits):
    """Every action once, weighted by its chance under the SAMPLING policy."""
    logp = jax.nn.log_softmax(logits)[:, None]
    loss, _ = objective.kl(logp, ref_logp, mask, estimator=estimator)
    return (loss[:, 0] * jnp.asarray(p, jnp.float32)).sum()

  logits = jnp.asarray(np.log(p), jnp.float32)
  np.testing.assert_allclose(jax.grad(expected_loss)(logits), exact, atol=1e-6)


def test_k1_is_refused_as_a_loss():
  with pytest.raises(ValueError, match="expected gradient of zero"):
    objective.kl(
      jnp.zeros((1, 1)),
      jnp.zeros((1, 1)),
      jnp.ones((1, 1), bool),
      estimator=numerics.k1,
    )


@pytest.mark.parametrize("dual_clip", [1.0, 0.5, float("nan")])
def test_dual_clip_must_exceed_one(dual_clip):
  with pytest.raises(ValueError, match="must be > 1"):
    call(objective.ppo_clip, dual_clip=dual_clip)
