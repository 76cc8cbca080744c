"""bench, allocate: every row is there, and the heap agrees."""

import jax
import numpy as np
import pytest

from experiments.benchmarks import allocate
from jaxroll import posterior

SIZE = 10_000


def test_the_allocate_suite_agrees_with_its_heap():
  # It raises where the counts are not those of the heap.
  rows = allocate.allocate((SIZE,), 1)
  assert [row.name for row in rows] == [
    "draw",
    "select",
    "allocate selected",
    "allocate all",
    "step selected",
    "step all",
  ]
  for row in rows:
    assert row.size == SIZE
    assert 0 < row.min_s <= row.median_s <= row.max_s
    assert row.prompts_per_s == SIZE / row.median_s
    of_python = row.name.startswith(("allocate", "step"))
    assert (row.ratio_heap is not None) == of_python
  text = allocate.table(rows)
  assert len(text.splitlines()) == len(rows) + 1
  assert len({len(line) for line in text.splitlines()}) == 1


def test_a_heap_that_disagrees_is_an_error(monkeypatch):
  monkeypatch.setattr(allocate, "heap_counts", lambda gains, budget: [])
  with pytest.raises(AssertionError, match="not the heap's counts"):
    allocate.allocate((SIZE,), 1)


def test_a_step_spends_its_budget_and_learns_from_it():
  stats, rate = allocate.problem(SIZE)
  new, ids, counts = jax.jit(allocate.step_selected)(
    stats, rate, jax.random.key(0)
  )
  assert int(counts.sum()) == 8 * SIZE // 100
  assert int(counts.min()) >= 1 and int(counts.max()) <= allocate.CAP
  # Decayed by .999 everywhere and by half where there is new evidence.
  kept = np.full(SIZE, 0.999)
  kept[np.asarray(ids)] *= 0.5
  expected = kept * np.asarray(stats.weight)
  expected[np.asarray(ids)] += np.asarray(counts)
  np.testing.assert_allclose(new.weight, expected, rtol=1e-5)
  assert posterior.mean(new).shape == (SIZE,)
