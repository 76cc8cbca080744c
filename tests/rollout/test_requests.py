"""Does a row do what its request asks: stems, limits, resumption, order?"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import rollout, types
from tests.rollout import toys

R, T = toys.R, toys.T


@pytest.fixture(scope="module")
def plain():
  return toys.sample(toys.request())


@pytest.fixture(scope="module")
def mixed():
  return toys.sample(toys.mixed_request())


def test_given_tokens(mixed):
  given = jnp.arange(T)[None, :] < toys.GIVEN_LENGTH[:, None]
  np.testing.assert_array_equal(mixed.given_length, toys.GIVEN_LENGTH)
  np.testing.assert_array_equal(
    mixed.tokens[given],
    toys.GIVEN[given],
    "given tokens are written as they are",
  )
  np.testing.assert_array_equal(mixed.mask, toys.written(mixed) & ~given)
  np.testing.assert_array_equal(
    mixed.origin,
    jnp.where(given, types.GIVEN, jnp.where(mixed.mask, types.SAMPLED, 0)),
  )
  assert (mixed.behaviour_logp[given] < 0).all()
  assert (mixed.entropy[given] > 0).all()
  # Rows 2, 3 and 6 were given all that they may hold; row 5 may hold nothing.
  assert mixed.length[jnp.array([2, 3, 6, 5])].tolist() == [7, 3, 4, 0]
  assert not mixed.stopped[jnp.array([2, 3, 6, 5])].any()
  assert not mixed.mask[jnp.array([2, 3, 6, 5])].any()


def test_limits_by_row(plain, mixed):
  assert (mixed.length <= toys.LIMIT).all()
  ends = mixed.stopped | (mixed.length == toys.LIMIT)
  np.testing.assert_array_equal(ends, True)
  one = toys.sample(toys.request(limit=1))
  np.testing.assert_array_equal(one.length, 1)
  np.testing.assert_array_equal(one.stopped, one.tokens[:, 0] == toys.STOP)
  far = toys.sample(toys.request(limit=T + 5))
  jax.tree.map(np.testing.assert_array_equal, far, plain)
  none = toys.sample(toys.request(limit=0))
  np.testing.assert_array_equal(none.length, 0)
  assert none.valid.all() and not none.stopped.any() and not none.mask.any()
  assert not none.tokens.any()


def test_resumed_rows_go_on_as_they_would_have(plain):
  """In other slots, so up to rounding: see `rule4` should a token differ."""
  for kept in (1, 3):
    given_length = jnp.minimum(plain.length, kept)
    # Rows that have ended are not resumed.
    more = plain.length > kept
    asked = toys.request(T, plain.tokens, given_length, more)
    resumed = toys.sample(asked)
    assert more.sum() >= 4
    for name in ("tokens", "length", "stopped", "behaviour_logp", "entropy"):
      actual, expected = getattr(resumed, name), getattr(plain, name)
      np.testing.assert_allclose(
        actual[more], expected[more], rtol=0, atol=1e-5, err_msg=name
      )
    np.testing.assert_array_equal(
      resumed.mask[more], (plain.mask & (jnp.arange(T) >= kept)[None, :])[more]
    )


def test_resumed_in_the_same_slots_is_bitwise_the_same(plain):
  """All rows in slots of their own, as before: the same sums, the same bits."""
  first = toys.sample(toys.request(), slots=R)
  given_length = jnp.minimum(first.length - 1, 3)
  resumed = toys.sample(toys.request(T, first.tokens, given_length), slots=R)
  for name in ("tokens", "length", "stopped", "behaviour_logp", "entropy"):
    np.testing.assert_array_equal(
      getattr(resumed, name), getattr(first, name), name
    )


def test_forked_rows_keep_the_stem(plain):
  """Eight forks of row 2 after two tokens: one stem, own continuations."""
  assert plain.length[2] > 2
  asked = toys.request(T, jnp.tile(plain.tokens[2:3], (R, 1)), 2)
  context = jnp.full((R,), plain.context[2])
  index = 2 + jnp.arange(R, dtype=jnp.int32)
  rows = toys.sample(asked.replace(context=context, group=context, index=index))
  np.testing.assert_array_equal(rows.tokens[:, :2], asked.given[:, :2])
  for t in range(2):
    np.testing.assert_allclose(
      rows.behaviour_logp[:, t], plain.behaviour_logp[2, t], atol=1e-5
    )
  assert len({tuple(row) for row in rows.tokens.tolist()}) >= R // 2


def test_invalid_rows_anywhere(plain):
  valid = jnp.array([False, True, True, False, True, False, False, True])
  rows = toys.sample(toys.request(valid=valid))
  np.testing.assert_array_equal(rows.valid, valid)
  assert not rows.length[~valid].any() and not rows.tokens[~valid].any()
  np.testing.assert_array_equal(rows.tokens[valid], plain.tokens[valid])
  nobody = toys.sample(toys.request(valid=False))
  assert not nobody.length.any() and not nobody.mask.any()


def test_rows_carry_their_request(plain):
  asked = toys.request()
  for name in ("group", "index", "context", "born", "valid"):
    np.testing.assert_array_equal(getattr(plain, name), getattr(asked, name))
  np.testing.assert_array_equal(plain.round, 0)
  policy = toys.bigram()
  third, _ = toys.jitted(policy, 3, round_index=2)(
    toys.counting(),
    toys.CONTEXTS,
    asked,
    toys.keys_of(asked),
    rollout.sampler(0.0),
    rollout.stops(()),
  )
  np.testing.assert_array_equal(third.round, 2)
  assert (plain.length >= 1).all() and (plain.length <= T).all()


def test_contexts_need_not_be_groups(plain):
  """Row 1 reads context 3, whatever its group is."""
  asked = toys.request()
  context = asked.context.at[1].set(3)
  rows = toys.sample(asked.replace(context=context))
  others = jnp.arange(R) != 1
  np.testing.assert_array_equal(rows.tokens[others], plain.tokens[others])
  gap = jnp.abs(toys.score(rows)[0] - rows.behaviour_logp)
  assert jnp.max(gap) <= toys.tolerance(rows)
  assert (rows.behaviour_logp[1] != plain.behaviour_logp[1]).any()
  # Two groups of four rows, each over two of the four contexts.
  row = jnp.arange(R, dtype=jnp.int32)
  rows = toys.sample(asked.replace(group=row // 4, index=row % 4))
  gap = jnp.abs(toys.score(rows)[0] - rows.behaviour_logp)
  assert jnp.max(gap) <= toys.tolerance(rows)


def test_bad_arguments():
  asked = toys.request()
  with pytest.raises(ValueError, match="slots=0: must be at least 1"):
    toys.sample(asked, slots=0)
  wide = asked.replace(given=jnp.zeros((R, T + 1), jnp.int32))
  with pytest.raises(ValueError, match="given has 8 columns, more than"):
    toys.sample(wide)
