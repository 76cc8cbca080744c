"""Where does a row end, and what stands after its end?

A policy that counts upwards, greedily: after a context that ends in c come
c + 1, c + 2 ..., and 0 after 10. The contexts of `toys` end in 3, 2, 4 and 1.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import rollout, types
from jaxroll.rollout import stopping
from tests.rollout import toys

V = 11
POLICY = toys.bigram(V)
# Two stop tokens and two stop sequences, one of them shorter, whatever the
# rules: one program serves every case. These never come true.
NEVER = (20, 21), ((20, 21, 22), (23, 24))


def generate(tokens=NEVER[0], sequences=NEVER[1], slots=3, **asked):
  request = toys.request(**asked)
  rows, _ = toys.jitted(POLICY, slots)(
    toys.counting(V),
    toys.CONTEXTS,
    request,
    toys.keys_of(request),
    rollout.sampler(0.0),
    rollout.stops(tokens, sequences),
  )
  return rows


def texts(rows):
  """The tokens of the first row of each context."""
  return [
    rows.tokens[i, : rows.length[i]].tolist() for i in range(0, toys.R, 2)
  ]


def assert_nothing_after_the_end(rows):
  after = ~toys.written(rows)
  for name in ("tokens", "origin", "behaviour_logp", "entropy", "mask"):
    values = np.asarray(getattr(rows, name))
    assert not values[after].any(), name
  np.testing.assert_array_equal(rows.mask, toys.written(rows))


def test_several_stop_tokens():
  rows = generate(tokens=(5, 7))
  assert texts(rows) == [[4, 5], [3, 4, 5], [5], [2, 3, 4, 5]]
  assert rows.stopped.all()
  assert_nothing_after_the_end(rows)
  rows = generate(tokens=(6, 2))
  assert texts(rows) == [[4, 5, 6], [3, 4, 5, 6], [5, 6], [2]]
  assert rows.stopped.all()
  assert_nothing_after_the_end(rows)


def test_stop_token_first():
  rows = generate(tokens=(4, 2))
  assert texts(rows)[0] == [4] and texts(rows)[3] == [2]
  assert rows.length.tolist() == [1, 1, 2, 2, 7, 7, 1, 1]
  assert rows.stopped.tolist() == [True] * 4 + [False] * 2 + [True] * 2
  assert rows.mask[0].tolist() == [True] + [False] * 6


def test_stop_token_that_is_the_padding():
  rows = generate(tokens=(0, 21))
  # 4 5 6 7 8 9 10 does not get there; 5 6 7 8 9 10 0 stops at its limit.
  assert texts(rows)[0] == [4, 5, 6, 7, 8, 9, 10]
  assert texts(rows)[2] == [5, 6, 7, 8, 9, 10, 0]
  assert rows.stopped.tolist() == [False] * 4 + [True] * 2 + [False] * 2
  assert rows.mask[4].tolist() == [True] * 7
  rows = generate(tokens=(0, 21), limit=6)
  assert not rows.stopped.any()


def test_padding_sampled_inside_a_row():
  """Masks come from lengths: token 0 is a token like any other."""
  given = jnp.full((toys.R, toys.T), 8, jnp.int32)
  rows = generate(tokens=(1, 21), given=given, given_length=1)
  assert rows.tokens[0].tolist() == [8, 9, 10, 0, 1, 0, 0]
  assert rows.mask[0].tolist() == [False] + [True] * 4 + [False] * 2
  assert rows.origin[0].tolist() == [2, 1, 1, 1, 1, 0, 0]


def test_stop_sequences_of_different_lengths():
  rows = generate(sequences=((4, 5, 6), (3, 4)))
  # The context's own last token begins no sequence: row 0 reads 3 | 4.
  assert texts(rows) == [
    [4, 5, 6],
    [3, 4],
    [5, 6, 7, 8, 9, 10, 0],
    [2, 3, 4],
  ]
  assert rows.stopped.tolist() == [True] * 4 + [False] * 2 + [True] * 2
  assert_nothing_after_the_end(rows)


def test_stop_sequence_across_given_and_sampled():
  # Given 2 | 3 4 ...: the sequence 2 3 4 begins in the given token.
  given = jnp.broadcast_to(jnp.array([2, 3, 4, 0, 0, 0, 0]), (toys.R, toys.T))
  rows = generate(sequences=((2, 3, 4), (20, 21)), given=given, given_length=1)
  assert texts(rows) == [[2, 3, 4]] * 4
  assert rows.stopped.all()
  # All of it given: it is context, not an answer.
  rows = generate(sequences=((2, 3, 4), (20, 21)), given=given, given_length=3)
  assert texts(rows) == [[2, 3, 4, 5, 6, 7, 8]] * 4
  assert not rows.stopped.any()


def test_given_stop_token_does_not_stop():
  given = jnp.full((toys.R, toys.T), 5, jnp.int32)
  rows = generate(tokens=(5, 8), given=given, given_length=2)
  assert texts(rows) == [[5, 5, 6, 7, 8]] * 4
  assert rows.stopped.all()


def test_next_row_of_a_slot_does_not_continue_a_sequence():
  """One slot: 4 5 of row 0, then 3 4 ... of row 2, are not 4 5 3."""
  rows = generate(
    sequences=((4, 5, 3), (20, 21)),
    slots=1,
    limit=2,
    valid=jnp.array([True, False, True] + [False] * 5),
  )
  assert texts(rows)[:2] == [[4, 5], [3, 4]]
  assert not rows.stopped.any()


def test_window_of_recent_tokens():
  rules = rollout.stops((), ((1, 2, 3), (3,)))
  recent = stopping.nothing_recent(2, rules)
  for one, two, ends in ((1, 2, [False, False]), (2, 3, [False, True])):
    token = jnp.array([one, two], jnp.int32)
    recent = stopping.push(recent, token)
    assert stopping.reached(rules, token, recent).tolist() == ends
  token = jnp.array([3, 4], jnp.int32)
  recent = stopping.push(recent, token)
  assert recent.tolist() == [[1, 2, 3], [2, 3, 4]]
  assert stopping.reached(rules, token, recent).tolist() == [True, False]


def test_no_stop_rule_at_all():
  rows, _ = toys.jitted(POLICY, 8)(
    toys.counting(V),
    toys.CONTEXTS,
    toys.request(),
    toys.keys_of(toys.request()),
    rollout.sampler(0.0),
    rollout.stops(()),
  )
  assert rows.length.tolist() == [toys.T] * toys.R
  assert not rows.stopped.any()
  assert (rows.origin == types.SAMPLED).all()


@pytest.mark.parametrize(
  "tokens, sequences, message",
  [
    ((-1,), (), "stop ids must be >= 0"),
    ((1,), ((2, -3),), "stop ids must be >= 0"),
    ((1,), ((2,), ()), "an empty one would end every row"),
  ],
)
def test_bad_rules(tokens, sequences, message):
  with pytest.raises(ValueError, match=message):
    rollout.stops(tokens, sequences)
