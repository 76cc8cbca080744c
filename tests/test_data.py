"""The order of prompts: complete, its own in each epoch, the same on resume."""

import json

import numpy as np
import pytest

from jaxroll import data

POOL = np.arange(100, 123, dtype=np.int32)  # 23 ids: 5 batches of 4, 3 left


def take(order, number):
  return np.stack([next(order) for _ in range(number)])


def test_an_epoch_has_no_id_twice_and_epochs_differ():
  order = data.prompt_order(POOL, seed=1, batch=4)
  epochs = [take(order, 5).ravel() for _ in range(20)]
  for epoch in epochs:
    assert epoch.dtype == np.int32
    assert len(set(epoch)) == 20 and set(epoch) <= set(POOL)
  assert len({tuple(epoch) for epoch in epochs}) == 20
  # Which ids are left over changes, too: all are seen in the end.
  assert {i for epoch in epochs for i in epoch} == set(POOL)


def test_the_order_is_the_seeds_and_shuffled():
  first = take(data.prompt_order(POOL, seed=1, batch=4), 12)
  np.testing.assert_array_equal(
    first, take(data.prompt_order(POOL, seed=1, batch=4), 12)
  )
  assert (first != take(data.prompt_order(POOL, seed=2, batch=4), 12)).any()
  assert first[:5].ravel().tolist() != POOL[:20].tolist()


@pytest.mark.parametrize("done", [0, 3, 5, 17])
def test_a_resumed_order_goes_on(done):
  order = data.prompt_order(POOL, seed=1, batch=4)
  for _ in range(done):
    next(order)
  state = json.loads(json.dumps(order.get_state()))
  expected = take(order, 12)
  resumed = data.prompt_order(POOL, seed=1, batch=4)
  resumed.set_state(state)
  np.testing.assert_array_equal(take(resumed, 12), expected)


def test_processes_share_out_each_batch():
  whole = take(data.prompt_order(POOL, seed=1, batch=6), 10)
  parts = [
    take(
      data.prompt_order(
        POOL, seed=1, batch=6, process_index=i, process_count=3
      ),
      10,
    )
    for i in range(3)
  ]
  np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


@pytest.mark.parametrize(
  "arguments, message",
  [
    ({"batch": 0}, r"batch=0: must be in \[1, 23\]"),
    ({"batch": 24}, "batch=24.*lower it"),
    ({"seed": -1}, "seed=-1"),
    ({"process_index": 2, "process_count": 2}, "process_index=2"),
    ({"process_count": 3}, "batch=4 is no multiple of process_count=3"),
    ({"pool": [1, 1, 2, 3, 4]}, "each of them once"),
    ({"pool": [[1]]}, r"shape \(1, 1\)"),
  ],
)
def test_refused(arguments, message):
  arguments = {"pool": POOL, "seed": 0, "batch": 4} | arguments
  with pytest.raises(ValueError, match=message):
    data.prompt_order(arguments.pop("pool"), **arguments)
