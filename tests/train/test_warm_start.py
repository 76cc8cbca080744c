"""Supervised steps: they learn, and as unreliably as they are asked to."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxroll import train, types
from tests.train import rows as rows_lib
from tests.train import tiny


def test_loss_falls():
  optimiser = train.adamw(3e-3)
  run = jax.jit(
    train.warm_start(tiny.POLICY, tiny.TASK, optimiser, rows=32, steps=60)
  )
  params = tiny.POLICY.init(jax.random.key(0))
  pool = jnp.asarray(tiny.TASK.train_pool, jnp.int32)
  start = types.Learner(params, optimiser.init(params))
  after, loss = run(start, tiny.TASK.data, pool, jax.random.key(1))
  # A uniform policy has log 24 = 3.18 nats a token.
  np.testing.assert_allclose(loss[0], np.log(24), atol=0.1)
  assert loss[-1] < 1.5
  assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, start)


def test_loss_is_the_mean_over_tokens():
  """The first loss, before any step, written plainly."""
  policy, ids = rows_lib.bigram(), jnp.array([3])
  params = policy.init(jax.random.key(0))
  optimiser = optax.sgd(0.5)
  run = train.warm_start(policy, tiny.TASK, optimiser, rows=4, steps=1)
  start = types.Learner(params, optimiser.init(params))
  after, loss = jax.jit(run)(start, tiny.TASK.data, ids, jax.random.key(1))
  data = tiny.TASK.data
  text = [
    data.prompt[3][data.prompt_length[3] - 1],
    *data.answer[3][: data.answer_length[3]],
  ]

  def plain(params):
    logp = jax.nn.log_softmax(params["table"], axis=-1)
    return -jnp.mean(jnp.stack([logp[a, b] for a, b in zip(text, text[1:])]))

  value, gradient = jax.value_and_grad(plain)(params)
  np.testing.assert_allclose(loss, [value], rtol=1e-5)
  down = jax.tree.map(lambda p, g: p - 0.5 * g, params, gradient)
  tiny.close(after.params, down)


@pytest.mark.parametrize("wrong", [0.0, 0.3])
def test_the_share_of_wrong_solutions(wrong):
  """A policy that is sure of the right answer pays for each wrong one."""
  steps, rows, price, ids = 50, 24, 8.0, 2

  def apply(params, tokens, positions, cache=None, column=None):
    del positions, column
    return jax.nn.one_hot(tokens, rows_lib.V) * params["price"], cache

  policy = types.Policy(None, apply, lambda _, hidden: hidden, None)

  def prompts(data, ids):
    tokens = jnp.broadcast_to(ids[:, None], (ids.shape[0], 2))
    length = jnp.full(ids.shape, 2, jnp.int32)
    return None, types.Contexts(tokens=tokens, length=length)

  def solutions(data, ids, key):
    return ids[:, None], jnp.ones(ids.shape, jnp.int32)

  task = tiny.TASK._replace(prompts=prompts, solutions=solutions)
  optimiser = optax.sgd(0.0)
  run = train.warm_start(
    policy, task, optimiser, rows=rows, steps=steps, wrong=wrong
  )
  params = {"price": jnp.float32(price)}
  start = types.Learner(params, optimiser.init(params))
  _, loss = jax.jit(run)(start, None, jnp.arange(ids), jax.random.key(0))
  # -logp is c for the right answer and c + price for another one; another
  # prompt's answer is the same number for one pair in `ids`.
  c = np.log(1 + (rows_lib.V - 1) * np.exp(-price))
  share = (np.asarray(loss, np.float64).mean() - c) / price
  expected = wrong * (1 - 1 / ids)
  error = np.sqrt(expected * (1 - expected) / (steps * rows))
  # 5 sigma; neighbours share an id, so twice the variance at most.
  assert abs(share - expected) <= 5 * np.sqrt(2) * error + 1e-6


def test_what_is_refused():
  make = dict(rows=4, steps=1)
  mute = tiny.TASK._replace(solutions=None)
  with pytest.raises(ValueError, match="'arithmetic' has no solutions.*to 0"):
    train.warm_start(tiny.POLICY, mute, tiny.OPTIMISER, **make)
  for wrong in (-0.1, 1.0):
    with pytest.raises(ValueError, match=rf"wrong={wrong}: a share in \[0, 1"):
      train.warm_start(
        tiny.POLICY, tiny.TASK, tiny.OPTIMISER, wrong=wrong, **make
      )
