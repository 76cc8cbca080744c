"""TRACE at prompt roots: worked values, both stages, what they must not do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate
from jaxroll.allocate import _trace
from tests.allocate import columns

KEY = jax.random.key(0)


def test_roots_of_highest_chance_of_a_mixed_group():
  # M(p, 4): 0, .875, .3438, .5888 (0.2), 0.
  roots = _trace.select_roots(jnp.array([0, 0.5, 0.9, 0.2, 1.0]), 2, 4)
  assert np.flatnonzero(roots).tolist() == [1, 3]


def test_more_where_a_mixed_group_gains_most():
  # From one rollout each: .5, .25, .125 at .5; .18, .09 at .1 and at .9, the
  # lower place first; 0 at 0.
  rate, one = jnp.array([0.5, 0.1, 0.9, 0.0]), jnp.ones(4, jnp.int32)
  assert _trace.add(rate, one, 6, 4).tolist() == [3, 2, 1, 0]


def test_equal_rates_share_round_robin_and_the_cap_leaves_rows():
  rate, one = jnp.full(4, 0.3), jnp.ones(4, jnp.int32)
  assert _trace.add(rate, one, 6, 4).tolist() == [2, 2, 1, 1]
  assert _trace.add(rate, one, 99, 4).tolist() == [4, 4, 4, 4]
  # Where nothing is to be gained, rows are still spent.
  assert _trace.add(jnp.zeros(4), one, 3, 4).tolist() == [3, 0, 0, 0]


def test_a_step():
  # Beliefs alpha = 1, 3, 5, 7, beta = 1: means 1/2, 3/4, 5/6, 7/8. Of 16 rows
  # half are roots: prompts 0 and 1 with 4 each. Then 0 has 4 successes, mean
  # 5/6, and 1 has 4 failures, mean 3/8: growth .0805, .0676 against
  # .1078, .0624, .0372 of the next mixed.
  allocator = allocate.trace(n0=4, cap=6)
  reward = lambda number, prompt, place: float(prompt == 0)  # noqa: E731
  assert allocator.rounds(16, 4) == (8, 8)
  counts = columns.run_step(allocator, 16, reward, 4)
  assert counts[0].tolist() == [4, 4, 0, 0]

  def growth(p, n):
    return p**n * (1 - p) + (1 - p) ** n * p

  table = [(growth(5 / 6, 4 + j), 0) for j in range(6)]
  table += [(growth(3 / 8, 4 + j), 1) for j in range(6)]
  best = [prompt for _, prompt in sorted(table, reverse=True)[:8]]
  expected = [best.count(0), best.count(1), 0, 0]
  assert sum(expected) == 8 and expected[0] > expected[1] > 0
  assert counts[1].tolist() == expected


def test_rounds():
  assert allocate.trace().rounds(64, 8) == (32, 32)
  # All of 2 prompts are roots; the cap of 2 x 4 leaves 4 rows of 20.
  assert allocate.trace(n0=4).rounds(20, 2) == (8, 8)
  assert allocate.trace(share=1.0).rounds(32, 8) == (32,)
  # 0.7 * 30 is 21 rows, whatever its rounding.
  assert allocate.trace(n0=3, share=0.7, cap=1).rounds(30, 8)[0] == 21


@pytest.mark.parametrize(
  "hyper, words",
  [
    ({"n0": 0}, "n0=0"),
    ({"cap": 0}, "cap=0"),
    ({"share": 0.0}, "share=0.0"),
    ({"share": 1.5}, "share=1.5"),
  ],
)
def test_bad_numbers_are_refused(hyper, words):
  with pytest.raises(ValueError, match=words):
    allocate.trace(**hyper)
