"""What becomes of the slots when no row waits for them? They get fewer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import parallel, rollout
from tests.rollout import rule4, toys

T = toys.T
POLICY = toys.bigram()


def copies(times, asked):
  """A request several times over, its rows numbered on."""
  number = jnp.repeat(jnp.arange(times, dtype=jnp.int32), toys.R)
  many = jax.tree.map(lambda x: jnp.concatenate([x] * times), asked)
  return many.replace(
    index=many.index + 2 * number,
    row=jnp.arange(times * toys.R, dtype=jnp.int32),
  )


def generate(policy, params, asked, slots, temperature=1.0, mesh=None):
  options = {} if mesh is None else {"mesh": mesh}
  return toys.jitted(policy, slots, **options)(
    params,
    toys.CONTEXTS,
    asked,
    toys.keys_of(asked),
    rollout.sampler(temperature),
    rollout.stops((toys.STOP,)),
  )


def by_hand(lengths, widths):
  """Iterations, and slots of each of them together."""
  waiting, running, steps, paid = list(lengths), [], 0, 0
  width, *narrower = widths
  while waiting or running:
    while narrower and not waiting and len(running) <= narrower[0]:
      width = narrower.pop(0)
    running += [
      waiting.pop(0) for _ in range(min(len(waiting), width - len(running)))
    ]
    if not waiting and narrower and len(running) <= narrower[0]:
      continue
    steps, paid = steps + 1, paid + width
    running = [left - 1 for left in running if left > 1]
  return steps, paid


@pytest.mark.parametrize(
  "limits",
  [
    [7] * 24,
    [7, 1, 1, 1, 1, 1, 1, 1] * 3,
    [2] * 20 + [7, 3, 6, 5],
    [1] * 23 + [7],
    [1] * 24,
  ],
)
def test_slots_that_are_paid_for(limits):
  asked = copies(3, toys.request()).replace(limit=jnp.array(limits, jnp.int32))
  rows, info = generate(POLICY, toys.counting(), asked, 16, temperature=0.0)
  steps, paid = by_hand(rows.length.tolist(), (16, 8, 2))
  assert info.decode_steps == steps
  assert info.slot_steps == paid


def test_the_tail_is_cheaper():
  limit = jnp.array([7] + [1] * 23, jnp.int32)
  asked = copies(3, toys.request()).replace(limit=limit)
  rows, info = generate(POLICY, toys.counting(), asked, 16, temperature=0.0)
  # The first row counts 4 5 6 7 8 and stops at 9.
  np.testing.assert_array_equal(rows.length, jnp.minimum(limit, 6))
  # 16 slots for the 24 rows' first two steps, then 2 for four more.
  assert (info.decode_steps, info.slot_steps) == (6, 2 * 16 + 4 * 2)


@pytest.mark.parametrize("shape", [None, (2, 1, 4)])
def test_rows_are_those_of_few_slots(shape):
  """A table's rows need no sums: the same bits."""
  mesh = None if shape is None else parallel.make_mesh(*shape)
  params = POLICY.init(jax.random.key(2))
  asked = copies(6, toys.mixed_request())
  few, _ = generate(POLICY, params, asked, 4)
  many, info = generate(POLICY, params, asked, 40, mesh=mesh)
  jax.tree.map(np.testing.assert_array_equal, few, many)
  assert len(set(few.length.tolist())) > 4
  assert info.slot_steps < 40 * info.decode_steps


def test_a_transformers_rows_are_those_of_few_slots():
  policy, params = toys.transformer()
  asked = copies(3, toys.mixed_request())
  few, _ = generate(policy, params, asked, 3, toys.TEMPERATURE)
  many, forced = (
    generate(policy, params, request, 20, toys.TEMPERATURE)[0]
    for request in (asked, rule4.force(asked, few))
  )
  differing = rule4.assert_same_rollouts(
    few,
    many,
    forced,
    keys=toys.keys_of(asked),
    vocab=toys.V,
    tolerance=toys.tolerance(few),
  )
  assert differing <= 1
