"""Do hooks act on the right row, from its own first token on?

Three slots for eight rows: a memory that outlived its row would show.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import rollout, types
from tests.rollout import toys

R, T, V = toys.R, toys.T, toys.V
POLICY = toys.bigram()
PARAMS = POLICY.init(jax.random.key(4))
STRENGTH = 3.0


def generate(asked, temperature=0.8, slots=3, **hooks):
  rows, _ = toys.jitted(POLICY, slots, **hooks)(
    PARAMS,
    toys.CONTEXTS,
    asked,
    toys.keys_of(asked),
    rollout.sampler(temperature),
    rollout.stops((toys.STOP,)),
  )
  return jax.device_get(rows)


def by_hand(rows, bias, temperature=0.8):
  """Log-prob and entropy of each token, bias[t] added to the logits of t."""
  logp, entropy = np.zeros((R, T)), np.zeros((R, T))
  for row in range(R):
    context = int(rows.context[row])
    before = int(toys.CONTEXTS.tokens[context, toys.LENGTHS[context] - 1])
    for t in range(int(rows.length[row])):
      logits = np.float64(PARAMS["table"][before]) + bias[t]
      scaled = logits / temperature
      p = np.exp(scaled - scaled.max())
      p /= p.sum()
      before = int(rows.tokens[row, t])
      logp[row, t] = np.log(p[before])
      entropy[row, t] = -(p[p > 0] * np.log(p[p > 0])).sum()
  return logp, entropy


def favour_the_count():
  """Adds to the logit of token n at a row's n-th token."""

  def apply(logits, count):
    bias = jax.nn.one_hot(count, logits.shape[1], dtype=logits.dtype)
    return logits + STRENGTH * bias, count + 1

  return types.Hook(lambda rows: jnp.zeros((rows,), jnp.int32), apply)


EXPLORE = favour_the_count()


def test_recorded_numbers_without_hooks():
  rows = generate(toys.request())
  logp, entropy = by_hand(rows, np.zeros((T, V)))
  np.testing.assert_allclose(rows.behaviour_logp, logp, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(rows.entropy, entropy, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("asked", ["request", "mixed_request"])
def test_explore_changes_what_is_sampled_from(asked):
  asked = getattr(toys, asked)()
  rows = generate(asked, explore=EXPLORE)
  logp, entropy = by_hand(rows, STRENGTH * np.eye(T, V))
  np.testing.assert_allclose(rows.behaviour_logp, logp, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(rows.entropy, entropy, rtol=1e-5, atol=1e-6)
  hits = rows.tokens[rows.mask] == np.nonzero(rows.mask)[1]
  assert hits.mean() > 0.4


def test_explore_may_forbid_a_token():
  def apply(logits, carry):
    return logits.at[:, 0].set(-jnp.inf), carry

  hook = types.Hook(lambda rows: jnp.zeros((rows, 0)), apply)
  given = jnp.zeros((R, T), jnp.int32)
  rows = generate(toys.request(T, given, 1), explore=hook)
  assert rows.mask.sum() > R and not (rows.tokens == 0)[rows.mask].any()
  assert np.isfinite(rows.behaviour_logp[rows.mask]).all()
  assert np.isfinite(rows.entropy).all()
  # What the sampler would have said of the given token.
  np.testing.assert_array_equal(rows.behaviour_logp[:, 0], -np.inf)


def stop_when(rule, start):
  """A terminate hook; `rule(trace, carry)` gives stop and the new carry."""
  return types.Hook(lambda rows: jnp.full((rows,), start, jnp.float32), rule)


def first_true(condition):
  """Length of each row that ends with its first True, T without one."""
  found = condition.any(axis=1)
  return np.where(found, condition.argmax(axis=1) + 1, T)


def test_terminate_by_accumulated_surprise():
  """Ends a row once its sampled tokens' surprise exceeds 5 nats."""
  bound = 5.0

  def rule(trace, total):
    total = total - jnp.where(trace.given, 0.0, trace.logp)
    return total > bound, total

  hook = stop_when(rule, 0.0)
  for asked in (toys.request(), toys.mixed_request()):
    free = generate(asked)
    rows = generate(asked, terminate=hook)
    surprise = np.cumsum(np.where(free.mask, -free.behaviour_logp, 0), axis=1)
    over = (surprise > bound) & free.mask
    expected = np.minimum(first_true(over), free.length)
    assert (expected < free.length).sum() >= 2
    np.testing.assert_array_equal(rows.length, expected)
    written = np.arange(T)[None, :] < expected[:, None]
    np.testing.assert_array_equal(rows.tokens, free.tokens * written)
    np.testing.assert_array_equal(rows.stopped, free.stopped | over.any(axis=1))


def test_terminate_sees_the_token_just_written():
  seen = {
    "entropy": lambda trace: trace.entropy < 1.7,
    "token": lambda trace: trace.token == 1,
    "position": lambda trace: trace.position == 3,
  }
  free = generate(toys.request())
  for name, reached in seen.items():
    hook = stop_when(lambda trace, carry, f=reached: (f(trace), carry), 0.0)
    rows = generate(toys.request(), terminate=hook)
    condition = {
      "entropy": free.entropy < 1.7,
      "token": free.tokens == 1,
      "position": np.arange(T)[None, :] == np.full((R, 1), 3),
    }[name]
    expected = np.minimum(first_true(condition & free.mask), free.length)
    assert (expected < free.length).any(), name
    np.testing.assert_array_equal(rows.length, expected, name)


def test_terminate_is_deaf_to_given_tokens():
  """Asked at every token: a row ends with its first sampled one."""
  hook = stop_when(lambda trace, c: (jnp.ones_like(trace.given), c), 0.0)
  asked = toys.mixed_request()
  rows = generate(asked, terminate=hook)
  expected = np.minimum(asked.given_length + 1, asked.limit)
  np.testing.assert_array_equal(rows.length, expected)
  np.testing.assert_array_equal(rows.stopped, asked.given_length < asked.limit)


def test_both_hooks_at_once():
  hook = stop_when(lambda trace, n: (n >= 2, n + 1), 0.0)
  rows = generate(toys.request(), explore=EXPLORE, terminate=hook)
  free = generate(toys.request(), explore=EXPLORE)
  np.testing.assert_array_equal(rows.length, np.minimum(free.length, 3))
  np.testing.assert_array_equal(rows.tokens[:, :1], free.tokens[:, :1])
