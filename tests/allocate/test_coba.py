"""CoBA-RL: worked values, a heap, the two rounds, who counts in F."""

import heapq

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate, posterior
from jaxroll.allocate import _coba
from tests.allocate import columns

KEY = jax.random.key(0)


def _worth(rate, failure):
  return _coba.value(jnp.array(rate), *_coba.beta_shape(failure, 4.0))


@pytest.mark.parametrize(
  "failure, shape", [(0.8, (4.2, 1.8)), (0.3, (2.2, 3.8)), (0.5, (3.0, 3.0))]
)
def test_shape_has_its_mode_at_the_failure_rate(failure, shape):
  a, b = _coba.beta_shape(failure, 4.0)
  np.testing.assert_allclose((a, b), shape, rtol=1e-6)
  assert float((a - 1) / (a + b - 2)) == pytest.approx(failure)


def test_value():
  np.testing.assert_allclose(
    _worth([0, 0.2, 0.5, 0.8, 1.0], 0.8),
    [4.16897e-09, 0.0805646, 1.038141, 2.244337, 0.0659152],
    rtol=1e-5,
  )


@pytest.mark.parametrize(
  "failure, expected", [(0.8, [2, 2, 12, 16]), (0.3, [8, 12, 10, 2])]
)
def test_worked_allocation(failure, expected):
  worth = _worth([0.1, 0.3, 0.5, 0.8], failure)
  everyone = jnp.ones(4, bool)
  more = _coba.add(worth, everyone, 32 - 4 * 2, 2, 16, 8.0)
  assert (2 + more).tolist() == expected


def test_equals_a_heap():
  rng = np.random.default_rng(0)
  worth = rng.gamma(1.0, size=20)
  worth[11] = worth[3]  # a tie
  low, high, tau, budget = 1, 9, 3.0, 70

  def gain(prompt, n):
    return worth[prompt] * (np.exp(-n / tau) - np.exp(-(n + 1) / tau))

  counts = np.full(20, low)
  heap = [(-gain(prompt, low), prompt) for prompt in range(20)]
  heapq.heapify(heap)
  for _ in range(budget):
    _, prompt = heapq.heappop(heap)
    counts[prompt] += 1
    if counts[prompt] < high:
      heapq.heappush(heap, (-gain(prompt, counts[prompt]), prompt))
  more = _coba.add(
    jnp.asarray(worth, jnp.float32), jnp.ones(20, bool), budget, low, high, tau
  )
  np.testing.assert_array_equal(low + np.asarray(more), counts)


def test_every_prompt_counts_once_in_the_failure_rate():
  # (4/5 + 20/50) / 2, though the second has ten times the evidence; the third
  # does not count.
  stats = columns.stats(3).replace(
    alpha=jnp.array([1.0, 30.0, 90.0]), beta=jnp.array([4.0, 20.0, 1.0])
  )
  there = jnp.array([True, True, False])
  assert float(_coba.mean_failure(stats, there)) == pytest.approx(0.6)
  assert float(_coba.mean_failure(stats, ~there & there)) == 0.5


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_a_weak_policy_trains_on_what_it_can(right):
  # Prompts 0 to 2 go as the policy does, prompt 3 the other way: where most
  # fails the one that succeeds is worth most, and the other way round.
  reward = lambda number, prompt, place: (  # noqa: E731
    right if prompt < 3 else 1 - right
  )
  allocator = allocate.coba(low=2, high=16)
  stats = posterior.init(4)
  tally = columns.tally([[reward(0, prompt, 0)] * 2 for prompt in range(4)])
  counts = allocator.counts(
    stats, tally, jnp.full(4, 2, jnp.int32), round=1, rows=24, key=KEY
  )
  # F = 10/16 or 6/16 and p = 1/4, 3/4 or the other way round: the odd one's
  # value is 3 times the others', its lead tau ln 3 = 8.8 before rounding.
  assert counts.sum() == 24
  assert int(counts[3]) - int(counts[0]) in (8, 9)


def test_empty_prompts_get_nothing_in_the_second_round():
  counts = allocate.coba(low=2, high=16).counts(
    columns.stats(3),
    columns.tally([[1.0, 0.0], [], [0.0, 0.0]]),
    jnp.array([2, 0, 2], jnp.int32),
    round=1,
    rows=12,
    key=KEY,
  )
  assert int(counts[1]) == 0 and int(counts.sum()) == 12


def test_rounds():
  assert allocate.coba().rounds(64, 4) == (8, 56)
  assert allocate.coba(high=4).rounds(64, 4) == (8, 8)
  assert allocate.coba().rounds(8, 4) == (8,)


@pytest.mark.parametrize(
  "hyper, words",
  [
    ({"low": 0}, "low=0"),
    ({"high": 2}, "high=2"),
    ({"tau": 0.0}, "tau=0.0"),
    ({"kappa": -1.0}, "kappa=-1.0"),
  ],
)
def test_bad_numbers_are_refused(hyper, words):
  with pytest.raises(ValueError, match=words):
    allocate.coba(**hyper)


def test_share_of_rollouts_in_mixed_groups():
  # 64 prompts, p ~ Beta(.6, .6), 1024 rollouts, bounds 2 and 64, tau 16: 0.767
  # with equal counts; by simulation 0.898, 0.940, 0.926 for F of .8, .5, .3.
  rng = np.random.default_rng(0)
  rate = rng.beta(0.6, 0.6, (200, 64)).astype(np.float32)

  def share(counts):
    mixed = 1 - rate**counts - (1 - rate) ** counts
    return (counts * mixed).sum(axis=1).mean() / 1024

  @jax.jit
  @jax.vmap
  def allocate_all(rate, failure):
    worth = _coba.value(rate, *_coba.beta_shape(failure, 4.0))
    everyone = jnp.ones(64, bool)
    return 2 + _coba.add(worth, everyone, 1024 - 2 * 64, 2, 64, 16.0)

  assert share(np.full(rate.shape, 16)) == pytest.approx(0.767, abs=0.01)
  for failure, expected in ((0.8, 0.898), (0.5, 0.940), (0.3, 0.926)):
    counts = allocate_all(rate, jnp.full(200, failure))
    assert share(np.asarray(counts)) == pytest.approx(expected, abs=0.01)
