"""Does decoding with a cache compute the same function as a full pass?"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import types
from tests.models import tiny

# Rows of 3 and 5 context tokens, right-padded to S, then T decoded tokens.
B, S, T = 2, 5, 4
LENGTH = jnp.array([3, 5], jnp.int32)
CONTEXT = jnp.array([[2, 19, 8, 0, 0], [6, 1, 13, 22, 4]], jnp.int32)
DECODED = jnp.array([[5, 10, 0, 17], [23, 3, 3, 12]], jnp.int32)
AT = jnp.arange(S, dtype=jnp.int32)[None, :]
CONTEXT_POSITIONS = jnp.where(AT < LENGTH[:, None], AT, types.EMPTY)


@pytest.fixture(
  scope="module",
  params=[{}, tiny.EVERYTHING, tiny.CHOICES],
  ids=["plain", "everything", "choices"],
)
def network(request):
  return tiny.network(**request.param)


def full(policy, params):
  """Hidden states of the decoded tokens, from one pass over each row."""
  rows = []
  for row in range(B):
    length = int(LENGTH[row])
    tokens = jnp.concatenate([CONTEXT[row, :length], DECODED[row]])
    positions = jnp.arange(length + T, dtype=jnp.int32)
    hidden, _ = policy.apply(params, tokens[None, :], positions[None, :])
    rows.append(hidden[0, length:])
  return jnp.stack(rows)


def decode(policy, params, first, clutter=0.0):
  """The same, one token at a time into ring columns that start at `first`.

  Args:
    first: column of the ring's first write, in 0 ... T - 1.
    clutter: what the columns hold that nothing was written to.
  """
  cache = policy.init_cache(B, S + T)
  cache = cache._replace(
    keys=jax.tree.map(lambda x: x + clutter, cache.keys),
    values=jax.tree.map(lambda x: x - clutter, cache.values),
  )
  _, cache = policy.apply(
    params, CONTEXT, CONTEXT_POSITIONS, cache, jnp.int32(0)
  )
  steps = []
  for t in range(T):
    hidden, cache = policy.apply(
      params,
      DECODED[:, t : t + 1],
      (LENGTH + t)[:, None],
      cache,
      jnp.int32(S + (first + t) % T),
    )
    steps.append(hidden[:, 0])
  return jnp.stack(steps, axis=1), cache


@pytest.mark.parametrize("first", [0, 3])
def test_decoding_equals_the_full_pass(network, first):
  policy, params = network
  hidden, cache = decode(policy, params, first)
  np.testing.assert_allclose(hidden, full(policy, params), rtol=2e-5, atol=4e-6)
  ring = cache.positions[:, S:]
  expected = np.roll(np.asarray(LENGTH)[:, None] + np.arange(T), first, axis=1)
  np.testing.assert_array_equal(ring, expected)
  np.testing.assert_array_equal(cache.positions[:, :S], CONTEXT_POSITIONS)


def test_empty_columns_are_not_read(network):
  policy, params = network
  clean, _ = decode(policy, params, 0)
  cluttered, _ = decode(policy, params, 0, clutter=1e3)
  np.testing.assert_array_equal(clean, cluttered)


def test_prepared_parameters_are_the_same_network(network):
  policy, params = network
  prepared = policy.prepare(params)
  assert isinstance(prepared["layers"], tuple)
  np.testing.assert_array_equal(
    decode(policy, prepared, 2)[0], decode(policy, params, 2)[0]
  )
  np.testing.assert_array_equal(full(policy, prepared), full(policy, params))
  again = policy.prepare(prepared)
  jax.tree.map(np.testing.assert_array_equal, again, prepared)


def test_several_tokens_at_once(network):
  """Cached tokens of one call attend to each other as well."""
  policy, params = network
  cache = policy.init_cache(B, S + T)
  _, cache = policy.apply(
    params, CONTEXT, CONTEXT_POSITIONS, cache, jnp.int32(0)
  )
  positions = LENGTH[:, None] + jnp.arange(T, dtype=jnp.int32)[None, :]
  hidden, _ = policy.apply(params, DECODED, positions, cache, jnp.int32(S))
  np.testing.assert_allclose(hidden, full(policy, params), rtol=2e-5, atol=4e-6)


def test_new_cache_is_empty(network):
  policy, _ = network
  cache = policy.init_cache(B, S + T)
  assert len(cache.keys) == len(cache.values) == 2
  assert cache.positions.shape == (B, S + T)
  np.testing.assert_array_equal(cache.positions, types.EMPTY)
