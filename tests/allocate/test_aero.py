"""AERO's rescue: chunks for the prompts without a success."""

import jax.numpy as jnp
import pytest

from jaxroll import allocate
from jaxroll.allocate import _aero
from tests.allocate.stages import first_success, totals, wanted


def test_worked_values():
  # First success at draws 1, 12 and never; always right. The default plan of
  # 4 prompts: 8 each, then 4 chunks of 2. Draw 12 ends the second chunk.
  table = [first_success(0), first_success(11), first_success(None), [1.0] * 16]
  assert totals(allocate.aero(), 64, table) == [8, 12, 16, 8]


def test_rescue_stops_by_chunk():
  # Draw 11 is the first of the chunk of 11 and 12.
  table = [first_success(10)] + [[1.0] * 16] * 3
  assert totals(allocate.aero(), 64, table) == [12, 8, 8, 8]


def test_rescue_more():
  # The last chunk is cut at the total.
  more = _aero.rescue_more(
    jnp.array([True, False, False, False]),
    jnp.array([8, 8, 15, 16], jnp.int32),
    extra=2,
    total=16,
  )
  assert more.tolist() == [0, 2, 1, 0]


def test_plan_is_cut_at_the_budget():
  aero = allocate.aero(explore=4, total=9, extra=2)
  assert aero.rounds(99, 4) == (16, 8, 8, 4)
  assert aero.rounds(26, 4) == (16, 8, 2)
  with pytest.raises(ValueError, match="at least 17 rows .*budget=16: raise"):
    aero.rounds(16, 4)
  # Without a rescue the first pass is enough.
  assert allocate.aero(explore=4, total=4).rounds(16, 4) == (16,)


def test_a_cut_round_is_shared_evenly():
  # All four want 2 and there are 6 rows: 1.5 each, the lower places first.
  wrong = [[0.0] * 8] * 4
  assert wanted(allocate.aero(), wrong, 6) == [2, 2, 1, 1]
  # A solved prompt wants none, an empty one was given none.
  some = [[0.0] * 8, [1.0] * 8, [], [0.0] * 8]
  assert wanted(allocate.aero(), some, 3) == [2, 0, 0, 1]


def test_unscored_rows_are_no_success_and_count_as_given():
  rewards = [[], [0.0], [1.0], []]
  counts = wanted(allocate.aero(), rewards, 8, given=[8, 8, 8, 16])
  assert counts == [2, 2, 0, 0]


@pytest.mark.parametrize(
  "hyper, words",
  [
    ({"explore": 0}, "explore=0"),
    ({"total": 7}, "explore=8, total=7"),
    ({"extra": 0}, "extra=0 must be >= 1"),
  ],
)
def test_refuses(hyper, words):
  with pytest.raises(ValueError, match=words):
    allocate.aero(**hyper)
