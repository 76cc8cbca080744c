"""FAR: extra attempts for groups that are all wrong."""

import jax.numpy as jnp
import pytest

from jaxroll import allocate
from jaxroll.allocate import _far
from tests.allocate import columns
from tests.allocate.stages import first_success, totals, wanted

ATTEMPTS = [[0.0] * 8, [1.0] + [0.0] * 7, [1.0] * 8, [0.0] * 16, [0.0] * 3]
GIVEN = jnp.array([8, 8, 8, 16, 3], jnp.int32)


def test_worked_values():
  known = _far.status(columns.tally(ATTEMPTS), GIVEN, n=8, most=16)
  assert known.tolist() == [
    _far.MORE,
    _far.READY,
    _far.EASY,
    _far.HARD,
    _far.WAIT,
  ]
  more = _far.next_attempts(known, GIVEN, n=8, most=16, chunk=4)
  assert more.tolist() == [4, 0, 0, 0, 5]


def test_equal_partial_credit_is_easy():
  tally = columns.tally([[0.25] * 8])
  given = jnp.full(1, 8, jnp.int32)
  assert _far.status(tally, given, n=8, most=16).tolist() == [_far.EASY]


def test_step():
  # Ready at once; ready in the first extra chunk; hard; easy.
  table = [first_success(3), first_success(8), first_success(None), [1.0] * 16]
  assert totals(allocate.far(), 64, table) == [8, 12, 16, 8]


def test_last_chunk_is_cut():
  allocator = allocate.far(n=8, most=14, chunk=4)
  assert allocator.rounds(99, 4) == (32, 16, 8)
  assert wanted(allocator, [[0.0] * 12] * 4, 8, number=2) == [2] * 4
  with pytest.raises(ValueError, match="far needs at least 33 .*budget=32"):
    allocator.rounds(32, 4)


@pytest.mark.parametrize(
  "args, expected",
  [
    ((20, 32, 4, 0.5, 64), 20),
    ((32, 32, 0, 0.5, 64), 0),
    ((0, 32, 0, 0.25, 64), 64),
    # What is not foreseen, and what is pending already.
    ((0, 32, 0, 0.0, 64), 64),
    ((20, 32, 24, 0.5, 64), 0),
    ((0, 1, 0, 0.3, 64), 4),
  ],
)
def test_expand_prompts(args, expected):
  assert _far.expand_prompts(*args) == expected


def test_quorum():
  done = [(99, 100), (98, 100), (63, 64), (64, 64)]
  assert [_far.quorum(*d) for d in done] == [True, False, False, True]


@pytest.mark.parametrize(
  "hyper, words",
  [
    ({"n": 0}, "n=0"),
    ({"most": 7}, "n=8, most=7"),
    ({"chunk": 0}, "chunk=0"),
  ],
)
def test_refuses(hyper, words):
  with pytest.raises(ValueError, match=words):
    allocate.far(**hyper)
