"""Small inputs on which RL post-training frameworks were seen to go wrong.

Each test states the right value; the comment says what was seen instead.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import advantage, keep, numerics, objective, reward, trust
from jaxroll.objective import aggregate


def f32(x):
  return jnp.asarray(x, jnp.float32)


def one_group(fn, rewards, valid=None, **hyper):
  """An estimator on a single group."""
  rewards = f32(rewards)
  valid = jnp.ones(rewards.shape, bool) if valid is None else jnp.array(valid)
  group = jnp.zeros(rewards.shape, jnp.int32)
  return np.asarray(fn(rewards, group, num_groups=1, valid=valid, **hyper))


grpo = functools.partial(one_group, advantage.grpo, eps=0.0)


def prefix_mask(lengths, tokens):
  return jnp.arange(tokens)[None, :] < jnp.asarray(lengths)[:, None]


def ppo_losses(logp, adv, mask):
  """ppo_clip on rows whose anchor is -1 everywhere."""
  anchor = jnp.full(mask.shape, -1.0)
  low, high, weight = (jnp.full(mask.shape, x) for x in (0.8, 1.2, 1.0))
  loss, _ = objective.ppo_clip(logp, anchor, adv, low, high, weight, mask)
  return loss


# --- baselines


# Not those that stand after an estimator, nor those made for tied groups.
@pytest.mark.parametrize(
  "name",
  sorted(
    set(advantage.__all__)
    - {"bell_weight", "sharpen", "softmax_weight"}
    - {"posterior_baseline", "shrinkage"}
  ),
)
def test_group_of_one(name):
  # Seen: 0.7 from one path, 0 from another.
  assert one_group(getattr(advantage, name), [0.7]).tolist() == [0.0]
  group = jnp.zeros(1, jnp.int32)
  kept = keep.mixed(f32([0.7]), group, num_groups=1, valid=jnp.ones(1, bool))
  assert kept.tolist() == [False]  # counted as degenerate


def test_excluded_row_leaves_the_baseline():
  # Seen: [0.577, -1.155, 0], standardised with the excluded row.
  adv = grpo([1, 0, 1], [True, True, False])
  np.testing.assert_allclose(adv, [0.7071068, -0.7071068, 0], rtol=1e-6)


def test_reward_that_is_no_number():
  # Seen: all NaN; or the row read as a failure, [1.155, -.577, -.577].
  adv = grpo([1, np.nan, 0], [True, False, True])
  np.testing.assert_allclose(adv, [0.7071068, 0, -0.7071068], rtol=1e-6)


def test_dead_group_under_a_kl_weight():
  # Seen: dead rows silently change the scale.
  adv = jnp.asarray(grpo([1, 1, 1, 1]))
  np.testing.assert_array_equal(adv, 0.0)
  mask = prefix_mask([3, 3, 3, 3], 3)
  logp = jnp.full((4, 3), -1.1)
  gradient = jax.grad(lambda x: ppo_losses(x, adv, mask).sum())(logp)
  np.testing.assert_array_equal(gradient, 0.0)
  # The KL acts there only where a recipe has it: k3 at logp - ref = -1 has
  # the gradient 1 - exp(1) = -1.71828, a twelfth of it by token.
  weights = aggregate.token_mean(mask)

  def penalty(logp):
    loss, _ = objective.kl(logp, logp * 0.0 - 0.1, mask)
    return 0.1 * (weights * loss).sum()

  expected = 0.1 * -1.7182818 / 12
  np.testing.assert_allclose(jax.grad(penalty)(logp), expected, rtol=1e-5)


def test_dead_group_does_not_move_the_denominator():
  # One group of two is mixed; the other is dead in one batch, alive in the
  # other. The first group's gradient is the same.
  group = jnp.array([0, 0, 1, 1])
  mask = prefix_mask([2, 2, 2, 2], 2)
  logp = jnp.full((4, 2), -1.0)
  gradients = []
  for second in ([1, 1], [1, 0]):
    adv = advantage.rloo(
      f32([1, 0, *second]), group, num_groups=2, valid=jnp.ones(4, bool)
    )

    def total(logp, adv=adv):
      return (aggregate.token_mean(mask) * ppo_losses(logp, adv, mask)).sum()

    gradients.append(jax.grad(total)(logp)[:2])
  # -adv / 8 tokens, adv = +-1.
  np.testing.assert_allclose(gradients[0], [[-0.125] * 2, [0.125] * 2])
  np.testing.assert_array_equal(gradients[0], gradients[1])


# --- denominators


def test_truncated_row_leaves_the_denominator():
  # Seen: 0.25, the mean over the truncated row's tokens, too.
  kept = keep.stopped(jnp.array([True, False]))
  weights = aggregate.token_mean(prefix_mask([2, 6], 6) & kept[:, None])
  token_loss = jnp.ones((2, 6))
  np.testing.assert_allclose((weights * token_loss).sum(), 1.0)


@pytest.mark.parametrize("name", aggregate.__all__)
def test_everything_masked(name):
  # Seen: NaN.
  mask = jnp.zeros((2, 3), bool)
  weights = weigh(name, mask)

  def total(logp):
    return (weights * ppo_losses(logp, f32([1, -1]), mask)).sum()

  value, gradient = jax.value_and_grad(total)(jnp.full((2, 3), jnp.nan))
  assert float(value) == 0.0
  np.testing.assert_array_equal(gradient, 0.0)


def weigh(name, mask):
  """Weights of an aggregation; each row is its own prompt."""
  rows = jnp.arange(mask.shape[0])
  bound = {
    "constant_length": functools.partial(aggregate.constant_length, limit=4),
    "prompt_mean": functools.partial(
      aggregate.prompt_mean, group=rows, num_groups=mask.shape[0]
    ),
  }
  return bound.get(name, getattr(aggregate, name))(mask)


# Losses -1 (one token) and +1 (three tokens).
SPLIT_VALUES = {
  "token_mean": (-1 + 3) / 4,
  "sequence_mean": (-1 + 1) / 2,
  "prompt_mean": (-1 + 1) / 2,
  "constant_length": (-1 / 4 + 3 / 4) / 2,
}


@pytest.mark.parametrize("name", aggregate.__all__)
@pytest.mark.parametrize("parts", [1, 2])
def test_micro_batches_do_not_change_the_loss(name, parts):
  # Seen: 0.5 unsplit, 0 when split.
  mask, logp = prefix_mask([1, 3], 4), jnp.full((2, 4), -1.0)
  adv, weights = f32([1, -1]), weigh(name, mask)
  total = sum(
    (weights[rows] * ppo_losses(logp[rows], adv[rows], mask[rows])).sum()
    for rows in np.split(np.arange(2), parts)
  )
  np.testing.assert_allclose(total, SPLIT_VALUES[name], atol=1e-7)


@pytest.mark.parametrize("name", aggregate.__all__)
def test_accumulation_does_not_rescale(name):
  # Seen: 0.5 and 4 times the gradient.
  rng = np.random.default_rng(0)
  features, adv = f32(rng.normal(size=(8, 4))), f32(rng.normal(size=8))
  mask = prefix_mask([1, 4, 2, 0, 3, 4, 1, 2], 4)
  weights = weigh(name, mask)

  def total(scale, rows):
    logp = -1.0 + scale * features[rows]
    return (weights[rows] * ppo_losses(logp, adv[rows], mask[rows])).sum()

  def gradient(parts):
    split = np.split(np.arange(8), parts)
    return sum(jax.grad(total)(0.01, rows) for rows in split)

  assert abs(float(gradient(1))) > 1e-3
  np.testing.assert_allclose(gradient(4), gradient(1), rtol=1e-5)


def test_mean_over_the_kept_rows():
  # Seen: 0.5, rows dropped by weight 0 but counted.
  kept = jnp.array([True, False, True, False])
  weights = aggregate.token_mean(prefix_mask([3, 3, 3, 3], 3) & kept[:, None])
  token_loss = jnp.ones((4, 3))
  np.testing.assert_allclose((weights * token_loss).sum(), 1.0)
  # Statistics are recomputed on the kept set: [2, 0] has mean 1.
  adv = one_group(advantage.dr_grpo, [2, 9, 0, 7], kept)
  np.testing.assert_allclose(adv, [1, 0, -1, 0])


# --- ratios and divergences


def test_sequence_ratio_does_not_leak_masked_tokens():
  mask = jnp.array([[True, True, False]])
  logp = f32([[0.3, -0.1, 5.0]])
  zero, one = jnp.zeros((1, 3)), jnp.ones((1, 3))

  def loss(logp):
    return objective.gspo(
      logp, zero, f32([1]), 0.5 * one, 2.0 * one, one, mask
    )[0]

  # exp((0.3 - 0.1) / 2) = 1.1052
  np.testing.assert_allclose(
    loss(logp), [[-1.1051709, -1.1051709, 0]], rtol=1e-6
  )
  gradient = jax.grad(lambda x: loss(x).sum())(logp)
  assert float(gradient[0, 2]) == 0.0 and float(gradient[0, 0]) != 0.0
  dirty = logp.at[0, 2].set(jnp.nan)
  np.testing.assert_array_equal(loss(dirty), loss(logp))


@pytest.mark.parametrize("gap", [-100.0, 100.0])
def test_divergence_at_a_far_point(gap):
  # Seen: a finite value with a NaN gradient.
  ref, mask = jnp.full((1, 1), -150.0), jnp.ones((1, 1), bool)
  value, gradient = jax.value_and_grad(
    lambda logp: objective.kl(logp, ref, mask)[0].sum()
  )(ref + gap)
  assert np.isfinite(value) and np.isfinite(gradient).all()


@pytest.mark.parametrize(
  "estimator, expected",
  [(numerics.k1, 1.0), (numerics.k2, 0.5), (numerics.k3, 0.3678794)],
)
def test_sign_of_the_divergence(estimator, expected):
  # logp -1, ref -2. Seen: 0.7183, k3 with its arguments exchanged.
  logp, ref = jnp.full((1, 1), -1.0), jnp.full((1, 1), -2.0)
  out = reward.kl_penalty(
    jnp.zeros(1),
    logp,
    ref,
    jnp.ones((1, 1), bool),
    coefficient=1.0,
    estimator=estimator,
  )
  np.testing.assert_allclose(out, [-expected], rtol=1e-6)


@pytest.mark.parametrize("name", ["token_weight", "sequence_weight"])
def test_truncated_weight_is_constant_over_inner_epochs(name):
  # Seen: the current policy in the weight.
  mask = jnp.ones((1, 1), bool)
  old, behaviour = f32([[-1.0]]), f32([[-1.2]])
  scale = getattr(trust, name)(old, behaviour, mask)
  np.testing.assert_allclose(scale.weight, 1.2214028, rtol=1e-6)  # exp(0.2)
  for ratio in (1.0, 1.3, 0.6):  # the policy moves, the weight does not
    logp = old + np.float32(np.log(ratio))
    loss, _ = objective.ppo_clip(
      logp, scale.anchor, f32([1]), scale.low, scale.high, scale.weight, mask
    )
    np.testing.assert_allclose(loss, -1.2214028 * ratio, rtol=1e-6)


def test_overlong_penalty_counts_tokens():
  # Seen: characters counted. 9 tokens of, say, 40 characters; the ramp is
  # over tokens 6 ... 10.
  out = reward.overlong(f32([1]), jnp.array([9]), limit=10, buffer=4)
  np.testing.assert_allclose(out, [0.25])


# --- values that need no fault


def test_one_right_of_four():
  rewards = [1, 0, 0, 0]
  np.testing.assert_allclose(grpo(rewards), [1.5] + 3 * [-0.5], rtol=1e-6)
  np.testing.assert_allclose(
    grpo(rewards, ddof=0), [1.7320508] + 3 * [-0.5773503], rtol=1e-6
  )


def test_three_right_of_eight():
  rewards = 3 * [1] + 5 * [0]
  np.testing.assert_allclose(
    grpo(rewards), 3 * [1.2076] + 5 * [-0.7246], atol=5e-5
  )
  np.testing.assert_allclose(
    one_group(advantage.rloo, rewards), 3 * [0.7143] + 5 * [-0.4286], atol=5e-5
  )


@pytest.mark.parametrize("size, percent", [(4, 44.9), (8, 20.1)])
def test_share_of_homogeneous_groups(size, percent):
  """p^G + (1-p)^G at p = .1819, by all outcomes of a group of G."""
  outcomes = np.array(list(itertools.product((0, 1), repeat=size)))
  group = np.repeat(np.arange(len(outcomes)), size)
  kept = keep.mixed(
    f32(outcomes.ravel()),
    jnp.asarray(group),
    num_groups=len(outcomes),
    valid=jnp.ones(group.size, bool),
  )
  chance = np.where(outcomes == 1, 0.1819, 1 - 0.1819).prod(axis=1)
  dropped = ~np.asarray(kept).reshape(outcomes.shape)[:, 0]
  np.testing.assert_allclose(100 * chance[dropped].sum(), percent, atol=0.05)
