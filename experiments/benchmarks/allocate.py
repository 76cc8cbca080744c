"""Suite: how long do a step's statistics take, up to a million prompts?

A row is one function at one number of prompts. `ratio_heap` says how many
times as long plain Python with a heap takes: for the two allocations, whose
counts must be the same, and for the two whole steps (draw, score, select,
allocate, learn the outcomes). A step selects N / 100 of the N prompts and
shares 8 rollouts each out among them, at least 1 and at most 16; "all" shares N
rollouts out among all prompts. Minutes on two cores.
"""

import functools
import heapq
import random
import time

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks.timing import measure
from jaxroll import apportion, numerics, posterior, select

# A step of the task's prompts / SHARE; GROUP rollouts each on average.
SHARE, GROUP, CAP = 100, 8, 16
# Of all prompts each may get this many, and one on average.
DEPTH = 8


def problem(size: int):
  """A task some way into training, the same for the same size.

  Args:
    size: N prompts.

  Returns:
    stats PromptStats[N], rate f32[N] of success.
  """
  rng = np.random.default_rng(0)
  rate = rng.beta(0.5, 0.5, size).astype(np.float32)
  weight = rng.integers(0, 17, size)
  success = rng.binomial(weight, rate)
  stats = posterior.init(size)
  stats = stats.replace(
    alpha=jnp.asarray(1 + success, jnp.float32),
    beta=jnp.asarray(1 + weight - success, jnp.float32),
    weight=jnp.asarray(weight, jnp.float32),
  )
  return stats, jnp.asarray(rate)


def selected_gains(stats, ids) -> jax.Array:
  """Gains of the second and further rollouts of selected prompts."""
  mean = posterior.mean(stats)[ids]
  return _gains(mean, CAP - 1)


def all_gains(stats) -> jax.Array:
  """Gains of further rollouts of all prompts, which have one each."""
  return _gains(posterior.mean(stats), DEPTH)


def _gains(rate, depth):
  def gain(have):
    return apportion.mixed_gain(rate, have)

  return apportion.gain_table(gain, jnp.ones(rate.shape, jnp.int32), depth)


def choose(stats, key) -> jax.Array:
  """Ids of a step by VADE's score of Thompson draws."""
  size = stats.alpha.shape[0]
  pool = jnp.arange(size, dtype=jnp.int32)
  return select.vade(stats, pool, num=size // SHARE, key=key)


def step_selected(stats, rate, key):
  """A step's statistics: draw, select, allocate among the selected, observe.

  Args:
    stats: PromptStats[N].
    rate: f32[N], of which the outcomes are drawn.
    key: PRNG key.

  Returns:
    PromptStats[N], ids i32[P], counts i32[P] that sum to 8 P.
  """
  choosing, rolling = jax.random.split(key)
  ids = choose(stats, choosing)
  num = ids.shape[0]
  gains = selected_gains(stats, ids)
  counts = 1 + apportion.greedy(gains, (GROUP - 1) * num)
  stats = _observe(stats, rate, ids, counts, GROUP * num, rolling)
  return stats, ids, counts


def step_all(stats, rate, key):
  """A step's statistics where the budget is shared out among all prompts.

  Args: as of `step_selected`.

  Returns:
    PromptStats[N], counts i32[N] that sum to N.
  """
  size = rate.shape[0]
  counts = apportion.greedy(all_gains(stats), size)
  ids = jnp.arange(size, dtype=jnp.int32)
  return _observe(stats, rate, ids, counts, size, key), counts


def _observe(stats, rate, ids, counts, rows, key):
  group, _, valid = numerics.expand_counts(counts, rows)
  uniform = jax.random.uniform(key, (rows,))
  reward = (uniform < rate[ids][group]).astype(jnp.float32)
  length = jnp.ones((rows,), jnp.int32)
  return posterior.observe(
    stats, ids, reward, length, group, valid, step=0, local=0.5, decay=0.999
  )


def heap_counts(gains: list, budget: int) -> list:
  """The same counts in plain Python: a heap of each prompt's next gain.

  Args:
    gains: a list of gains for each prompt.
    budget: rollouts to hand out.

  Returns:
    Rollouts of each prompt.

  Example:
    >>> heap_counts([[0.9, 0.2], [0.5, 0.4]], 3)
    [1, 2]
  """
  counts = [0] * len(gains)
  queue = [(-row[0], i) for i, row in enumerate(gains)]
  heapq.heapify(queue)
  while queue and budget:
    _, i = heapq.heappop(queue)
    counts[i] += 1
    budget -= 1
    if counts[i] < len(gains[i]):
      heapq.heappush(queue, (-gains[i][counts[i]], i))
  return counts


def plain_step(alpha: list, beta: list, rate: list, num: int | None) -> list:
  """A step's statistics in plain Python: the same parts, heaps to choose.

  Args:
    alpha, beta: of each prompt's posterior; changed in place.
    rate: of success.
    num: prompts that are drawn, scored and selected; None takes all.

  Returns:
    Rollouts of each prompt of the step.

  Example:
    >>> plain_step([1.0, 1.0], [1.0, 1.0], [0.5, 0.5], 1)
    [8]
  """
  size = len(alpha)
  if num is None:
    ids, depth, budget, start = range(size), DEPTH, size, 0
  else:
    score = []
    for a, b in zip(alpha, beta):
      p = random.betavariate(a, b)
      score.append(p * (1 - p) ** 2)
    ids = heapq.nlargest(num, range(size), key=score.__getitem__)
    depth, budget, start = CAP - 1, (GROUP - 1) * num, 1
  gains = []
  for i in ids:
    p = alpha[i] / (alpha[i] + beta[i])
    gains.append(
      [p**n * (1 - p) + (1 - p) ** n * p for n in range(1, depth + 1)]
    )
  counts = [start + n for n in heap_counts(gains, budget)]
  for i in range(size):
    alpha[i] = 1 + 0.999 * (alpha[i] - 1)
    beta[i] = 1 + 0.999 * (beta[i] - 1)
  for i, n in zip(ids, counts):
    right = sum(random.random() < rate[i] for _ in range(n))
    kept = 0.5 if n else 1.0
    alpha[i] = 1 + kept * (alpha[i] - 1) + right
    beta[i] = 1 + kept * (beta[i] - 1) + n - right
  return counts


def _against_plain(row, stats, rate, num):
  """A step's row with its ratio to the step in plain Python."""
  lists = [x.tolist() for x in (stats.alpha, stats.beta, rate)]
  began = time.perf_counter()
  plain_step(*lists, num)
  return row._replace(ratio_heap=(time.perf_counter() - began) / row.median_s)


def allocate(sizes: tuple, repeats: int) -> list:
  """Statistics of a step: what is believed, selected, allocated, learned.

  Args:
    sizes: prompts of the task, each >= 100.
    repeats: calls that are measured.

  Returns:
    Rows: the draws, the selection, the two allocations, and the two whole
    steps; allocations and steps with their ratio to plain Python and a heap.
  """
  rows = []
  for size in sizes:
    stats, rate = problem(size)
    key = jax.random.key(size)
    timed = functools.partial(measure, size=size, repeats=repeats)

    def call(fn, *arguments):
      return functools.partial(jax.jit(fn), *arguments)

    rows.append(timed("draw", call=call(posterior.draw, stats, key)))
    rows.append(timed("select", call=call(choose, stats, key)))
    ids = jax.jit(choose)(stats, key)
    few, every = selected_gains(stats, ids), all_gains(stats)
    budget = (GROUP - 1) * ids.shape[0]
    rows += [
      _against_heap("allocate selected", few, budget, timed),
      _against_heap("allocate all", every, size, timed),
      _against_plain(
        timed("step selected", call=call(step_selected, stats, rate, key)),
        stats,
        rate,
        size // SHARE,
      ),
      _against_plain(
        timed("step all", call=call(step_all, stats, rate, key)),
        stats,
        rate,
        None,
      ),
    ]
  return rows


def _against_heap(name, gains, budget, timed):
  """A row of `apportion.greedy`; the heap must give the same counts."""
  greedy = jax.jit(apportion.greedy)
  row = timed(name, call=functools.partial(greedy, gains, budget))
  table = gains.tolist()
  began = time.perf_counter()
  expected = heap_counts(table, budget)
  seconds = time.perf_counter() - began
  if greedy(gains, budget).tolist() != expected:
    raise AssertionError(f"{name}, N={row.size}: not the heap's counts")
  return row._replace(ratio_heap=seconds / row.median_s)


def table(rows: list) -> str:
  """The rows as text.

  Args:
    rows: of `Row`.

  Returns:
    A line a row under a line of headings.
  """
  head = ("name", "size", "median ms", "min", "max", "compile s", "prompts/s")
  lines = [("{:<20}{:>9}" + "{:>11}" * 6).format(*head, "x heap")]
  for row in rows:
    ratio = "" if row.ratio_heap is None else f"{row.ratio_heap:.0f}"
    times = [1000 * x for x in (row.median_s, row.min_s, row.max_s)]
    lines.append(
      f"{row.name:<20}{row.size:>9}"
      + "".join(f"{x:>11.2f}" for x in (*times, row.compile_s))
      + f"{row.prompts_per_s:>11.2e}{ratio:>11}"
    )
  return "\n".join(lines)
