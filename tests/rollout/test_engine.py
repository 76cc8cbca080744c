"""Are the tokens of a row what its identity, request and policy say?"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import rollout, train, types
from tests.rollout import toys

R, T, V = toys.R, toys.T, toys.V


@pytest.fixture(scope="module")
def plain():
  return toys.sample(toys.request())


@pytest.mark.parametrize("temperature", [toys.TEMPERATURE, 0.5, 2.0])
def test_trainer_agrees_with_the_sampler(temperature):
  """At every token, first, last and stop tokens included, and given ones."""
  for asked in (toys.request(), toys.mixed_request()):
    rows = toys.sample(asked, temperature=temperature)
    logp, entropy = toys.score(rows, temperature)
    bound = toys.tolerance(rows)
    assert jnp.max(jnp.abs(logp - rows.behaviour_logp)) <= bound
    assert jnp.max(jnp.abs(entropy - rows.entropy)) <= bound
    assert jnp.std(logp, where=rows.mask) > 0.3


def test_temperature_on_both_sides():
  """Logits 2 and 0 at T = 0.5: 1 / (1 + exp(-4)) = 0.98201 for token 0."""
  policy = toys.bigram(2)
  params = {"table": jnp.array([[2.0, 0.0], [2.0, 0.0]], jnp.float32)}
  contexts = types.Contexts(
    tokens=jnp.zeros((toys.X, 1), jnp.int32),
    length=jnp.ones((toys.X,), jnp.int32),
  )
  asked = toys.request(limit=1)
  rows, _ = toys.jitted(policy, R)(
    params,
    contexts,
    asked,
    toys.keys_of(asked),
    rollout.sampler(0.5),
    rollout.stops(()),
  )
  logp, _ = train.token_logps(
    policy,
    params,
    contexts.tokens[rows.context],
    contexts.length[rows.context],
    rows.tokens,
    rows.length,
    jnp.float32(0.5),
  )
  for value in (rows.behaviour_logp, logp):
    np.testing.assert_allclose(np.exp(value[:, 0]), 0.98201, atol=5e-6)
  np.testing.assert_array_equal(rows.behaviour_logp, logp)


def test_tokens_are_gumbel_argmax(plain):
  """Recomputed from full forward passes and the identity's own noise."""
  policy, params = toys.transformer()
  checked = 0
  for row in range(R):
    prompt = row // 2
    key = jax.random.key(0)
    for number in (3, 40 + prompt, 0, row % 2):
      key = jax.random.fold_in(key, number)
    before = int(toys.LENGTHS[prompt])
    text = jnp.concatenate(
      [toys.CONTEXTS.tokens[prompt, :before], plain.tokens[row]]
    )
    at = jnp.arange(before + T, dtype=jnp.int32)
    hidden, _ = policy.apply(params, text[None, :], at[None, :])
    logits = policy.unembed(params, hidden)[0] / toys.TEMPERATURE
    for t in range(int(plain.length[row])):
      noise = jax.random.gumbel(jax.random.fold_in(key, t), (V,))
      assert plain.tokens[row, t] == jnp.argmax(logits[before + t - 1] + noise)
      checked += 1
  assert checked == plain.length.sum() > R


def test_stop_token_is_trained(plain):
  """It is kept, masked True, and has a log-prob with a gradient."""
  row = int(jnp.argmax(plain.stopped & (plain.length > 1)))
  last = int(plain.length[row]) - 1
  assert plain.stopped[row]
  assert plain.tokens[row, last] == toys.STOP
  assert plain.mask[row, last] and not plain.mask[row, last + 1 :].any()
  policy, params = toys.transformer()

  def logp(params):
    context = plain.context[row : row + 1]
    return train.token_logps(
      policy,
      params,
      toys.CONTEXTS.tokens[context],
      toys.CONTEXTS.length[context],
      plain.tokens[row : row + 1],
      plain.length[row : row + 1],
      jnp.float32(toys.TEMPERATURE),
    )[0][0, last]

  assert jnp.abs(logp(params) - plain.behaviour_logp[row, last]) < 1e-5
  gradient = jax.jit(jax.grad(logp))(params)
  assert jnp.max(jnp.abs(gradient["embed"]["embedding"][toys.STOP])) > 1e-3


def test_padding_id_sampled_inside_a_row():
  """The trainer's log-probs after a sampled 0 are still the sampler's."""
  rows = [toys.sample(toys.request(), seed=seed) for seed in range(3)]
  # A 0 with a token after it.
  inside = [(r.tokens[:, :-1] == 0) & r.mask[:, 1:] for r in rows]
  assert sum(int(x.sum()) for x in inside) >= 3
  for r in rows:
    np.testing.assert_array_equal(r.mask, toys.written(r))
    gap = jnp.abs(toys.score(r)[0] - r.behaviour_logp)
    assert jnp.max(gap) <= toys.tolerance(r)
