"""Does a model of a user's own, four functions, do what ours do?"""

import jax.numpy as jnp
import numpy as np

from jaxroll import rollout, train, types
from tests.rollout import toys


def test_bigram_model_generates_and_scores():
  """v is followed by v + 1; 10 of 11 logits are 0, that one is 10."""
  policy, params = toys.bigram(11), toys.counting(11)
  contexts = types.Contexts(
    tokens=jnp.array([[4, 0, 0], [2, 3, 8]], jnp.int32),
    length=jnp.array([1, 3], jnp.int32),
  )
  asked = rollout.fill(
    jnp.array([1, 2], jnp.int32),
    jnp.zeros(2, jnp.int32),
    rows=3,
    step=0,
    limit=4,
  )
  rows, info = rollout.generate(
    policy,
    params,
    contexts,
    asked,
    toys.keys_of(asked),
    rollout.sampler(0.0),
    rollout.stops((7,)),
    slots=2,
    max_length=4,
  )
  expected = [[5, 6, 7, 0], [9, 10, 0, 1], [9, 10, 0, 1]]
  assert rows.tokens.tolist() == expected
  assert rows.length.tolist() == [3, 4, 4]
  assert rows.stopped.tolist() == [True, False, False]
  # Two slots: 3 steps and 4, then 4 more in the first: 7.
  assert info.decode_steps == 7
  logp, entropy = train.token_logps(
    policy,
    params,
    contexts.tokens[rows.context],
    contexts.length[rows.context],
    rows.tokens,
    rows.length,
    jnp.float32(1.0),
  )
  # log(e^10 / (e^10 + 10)) = -0.000453896; entropy from p = 0.999546.
  np.testing.assert_allclose(logp[rows.mask], -0.000453896, atol=5e-7)
  np.testing.assert_allclose(entropy[rows.mask], 0.0049918, atol=2e-6)
