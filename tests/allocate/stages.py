"""What the allocators that draw in stages are tested with."""

import jax
import jax.numpy as jnp

from tests.allocate import columns


def totals(allocator, budget, table):
  """Rows of each prompt after a step whose draws stand in a table."""
  reward = lambda number, prompt, place: table[prompt][place]  # noqa: E731
  counts = columns.run_step(allocator, budget, reward, len(table))
  return counts.sum(axis=0).tolist()


def first_success(place, num=64):
  """Draws of which only one, or none for None, is right."""
  return [float(i == place) for i in range(num)]


def wanted(allocator, rewards, rows, *, given=None, number=1):
  """Counts of a later round, by each prompt's rewards so far."""
  given = given or [len(r) for r in rewards]
  return allocator.counts(
    **columns.bind(
      allocator.counts,
      {
        "stats": columns.stats(len(rewards)),
        "tally": columns.tally(rewards),
        "counts": jnp.array(given, jnp.int32),
      },
    ),
    round=jnp.int32(number),
    rows=jnp.int32(rows),
    key=jax.random.key(0),
  ).tolist()
