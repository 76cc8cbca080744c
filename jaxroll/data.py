"""In which order does a run stream through its prompts?

Recipes select prompts by what is known of them. A loop that goes through the
data instead takes its ids from here: every epoch is another permutation of the
ids, cut into batches, of which each process reads its own part. The order
depends on the seed alone, and an iterator's state is one number, so that a run
that was resumed sees the prompts that it would have seen.

  order = data.prompt_order(task.train_pool, seed=0, batch=32)
  order.set_state(restored)        # where a checkpoint holds one
  for ids in order:
    prompts, contexts = task.prompts(task.data, ids)
    ...                            # roll out, learn
    saved = order.get_state()      # goes into the checkpoint

Random access, shuffling and the iterator are Grain's.
"""

from collections.abc import Sequence

import grain
import numpy as np


def prompt_order(
  pool: Sequence[int],
  *,
  seed: int,
  batch: int,
  process_index: int = 0,
  process_count: int = 1,
) -> grain.DatasetIterator:
  """An endless iterator over batches of prompt ids.

  An epoch has `len(pool) // batch` batches, in which no id stands twice; the
  ids that are left over are others in every epoch.

  Args:
    pool: i32[M], ids of prompts, each once: `task.train_pool`.
    seed: of the order, in [0, 2**32).
    batch: P, prompts of a step over all processes, 1 <= P <= M.
    process_index: whose part is read, `jax.process_index()`.
    process_count: `jax.process_count()`; it divides `batch`.

  Returns:
    A Grain iterator of i32[P / process_count]. Process i reads the i-th part
    of each batch; together they have the batch that one process would have.
    `get_state()` gives a dict that JSON can hold, `set_state` takes it in an
    iterator made with the same arguments.

  Raises:
    ValueError: for numbers out of range, or a repeated id.

  Example:
    >>> order = prompt_order([5, 6, 7, 8], seed=0, batch=2)
    >>> sorted([*next(order).tolist(), *next(order).tolist()])
    [5, 6, 7, 8]
    >>> order.get_state()
    {'next_index': 2}
  """
  ids = np.asarray(pool, np.int32)
  if ids.ndim != 1 or len(np.unique(ids)) != len(ids):
    raise ValueError(
      f"pool of shape {ids.shape}: must be a list of ids, each of them once"
    )
  if not 1 <= batch <= len(ids):
    raise ValueError(
      f"batch={batch}: must be in [1, {len(ids)}], the number of ids: lower it"
    )
  if not 0 <= seed < 2**32:
    raise ValueError(f"seed={seed}: must be in [0, 2**32)")
  if not 0 <= process_index < process_count:
    raise ValueError(
      f"process_index={process_index}: must be in [0, {process_count}), the "
      "number of processes"
    )
  if batch % process_count:
    raise ValueError(
      f"batch={batch} is no multiple of process_count={process_count}: choose "
      "one that is"
    )
  share = batch // process_count
  part = slice(process_index * share, (process_index + 1) * share)
  batches = (
    grain.MapDataset.source(ids)
    .seed(seed)
    .shuffle()
    .batch(batch, drop_remainder=True)
    .map(lambda whole: whole[part])
    .repeat()
  )
  # Ids are read in the caller's thread: there is nothing to prefetch.
  options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
  return iter(batches.to_iter_dataset(options))
