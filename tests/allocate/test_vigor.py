"""VIGOR: worked values, ties, failed verifiers, and its share of use."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate
from jaxroll.allocate import _vigor
from jaxroll.types import Tally
from tests.allocate import columns

FOUR = allocate.vigor(m0=2, rounds=3)


def _run(reward, allocator=FOUR):
  return columns.run_step(allocator, 24, reward, 4)


def test_worked_value():
  # Alternating, all right, all wrong, and one early failure.
  table = [[0, 1] * 7, [1] * 14, [0] * 14, [1, 0] + [1] * 12]
  counts = _run(lambda number, prompt, place: table[prompt][place])
  # Active sets {0, 1, 2, 3}, {0, 3}, {0}; sums [14, 2, 2, 6].
  assert counts.tolist() == [[2, 2, 2, 2], [4, 0, 0, 4], [8, 0, 0, 0]]


def test_without_variance_the_first_prompts_stay():
  assert _run(lambda *_: 1.0).sum(axis=0).tolist() == [14, 6, 2, 2]


def test_random_ties_choose_uniformly():
  allocator = allocate.vigor(m0=2, rounds=3, ties=allocate.ties.random_order)
  tally = columns.tally([[1.0, 1.0]] * 4)
  given = jnp.full(4, 2, jnp.int32)
  draw = lambda key: allocator.counts(  # noqa: E731
    columns.stats(4), tally, given, round=2, rows=8, key=key
  )
  counts = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(0), 1000))
  assert (np.sort(counts, axis=1) == [0, 0, 0, 8]).all()
  share = np.asarray(counts == 8).mean(axis=0)
  # 5 sigma of a share of 1/4 over 1000 draws.
  np.testing.assert_allclose(share, 0.25, atol=5 * np.sqrt(0.25 * 0.75 / 1000))


def test_failed_verifier_does_not_drop_an_active_prompt():
  # All start at variance 1/4; 0 and 1 stay by place. Then nothing of prompt 0
  # is scored, and prompt 1 gets four successes: 0 has fewer scored rows, the
  # higher variance, and must win.
  def reward(number, prompt, place):
    if number == 0:
      return float(place)
    return None if prompt == 0 else 1.0

  assert _run(reward).sum(axis=0).tolist() == [14, 6, 2, 2]


def test_failed_verifier_does_not_bring_a_dropped_prompt_back():
  # After the second round 0 and 1 fall to variances 2/9 and 0.1875, below the
  # 1/4 of the dropped prompts 2 and 3.
  def reward(number, prompt, place):
    if number == 0:
      return float(place)
    scored = place == 2 if prompt == 0 else place < 4
    return 1.0 if scored else None

  assert _run(reward).sum(axis=0).tolist() == [14, 6, 2, 2]


def test_nothing_scored_ranks_last():
  # Prompts 0 and 1 have no scored row, so 2 and 3 stay.
  reward = lambda number, prompt, place: (  # noqa: E731
    None if prompt < 2 else float(place % 2)
  )
  assert _run(reward).sum(axis=0).tolist() == [2, 2, 14, 6]


def test_empty_prompts_get_no_later_rows():
  # Prompt 0 is an empty slot: the caller gave it none of its first rows.
  counts = FOUR.counts(
    columns.stats(4),
    columns.tally([[], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]]),
    jnp.array([0, 2, 2, 2], jnp.int32),
    round=1,
    rows=8,
    key=jax.random.key(0),
  )
  assert counts.tolist() == [0, 4, 4, 0]


def test_refine_keeps_to_the_active():
  active = jnp.array([False, True, True, False])
  variance = jnp.array([0.3, 0.1, 0.2, 0.2])
  for num, kept in ((1, [2]), (2, [1, 2]), (3, [1, 2])):
    refined = _vigor.refine(active, variance, num, ties=jnp.zeros(4))
    assert np.flatnonzero(refined).tolist() == kept


@pytest.mark.parametrize(
  "args, expected",
  [
    ((4, 2, 3, 2, 0.5), [(4, 2), (2, 4), (1, 8)]),
    ((5, 2, 3, 2, 0.5), [(5, 2), (3, 4), (2, 8)]),
    # At least one stays, and 0.1 * 30 is 3, not 4.
    ((2, 1, 4, 2, 0.5), [(2, 1), (1, 2), (1, 4), (1, 8)]),
    ((30, 1, 2, 4, 0.1), [(30, 1), (3, 4)]),
  ],
)
def test_round_plan(args, expected):
  assert _vigor.round_plan(*args) == expected


def test_first_round_fits_the_budget():
  # Three rounds of 4, 2 x 2 and 1 x 4 cost 12 rows for each of m0.
  fitted = allocate.vigor(m0=None, rounds=3)
  assert fitted.rounds(47, 4) == (12, 12, 12)
  counts = columns.run_step(fitted, 47, lambda *_: 1.0, 4)
  assert counts.sum(axis=0).tolist() == [21, 9, 3, 3]
  with pytest.raises(ValueError, match="needs 12 rows .*budget=11"):
    fitted.rounds(11, 4)


def test_default_rounds_cost_eight_a_prompt():
  assert allocate.vigor().rounds(128, 16) == (32, 32, 32, 32)
  with pytest.raises(ValueError, match="needs 128 rows for P=16, m0=2"):
    allocate.vigor().rounds(127, 16)


@pytest.mark.parametrize(
  "kwargs, words",
  [
    ({"m0": 0}, "m0=0"),
    ({"rounds": 0}, "rounds=0"),
    ({"gamma": 0}, "gamma=0"),
    ({"alpha": 0.0}, "alpha=0.0"),
    ({"alpha": 1.5}, "alpha=1.5"),
  ],
)
def test_bad_numbers_are_refused(kwargs, words):
  with pytest.raises(ValueError, match=words):
    allocate.vigor(**kwargs)


def test_variance_amplification():
  eta = _vigor.variance_amplification(0.5, 2, 1.5, 4)
  # alpha gamma = 1: (alpha^(-T/k) - 1) / (T (alpha^(-1/k) - 1)).
  closed = (0.5 ** (-4 / 1.5) - 1) / (4 * (0.5 ** (-1 / 1.5) - 1))
  assert eta == pytest.approx(2.276811, abs=1e-6)
  assert eta == pytest.approx(closed)
  assert _vigor.speedup(0.5, 2, 1.5, 4) == pytest.approx(1.315555, abs=1e-6)
  with pytest.raises(ValueError, match="shape=1.0"):
    _vigor.variance_amplification(0.5, 2, 1.0, 4)


def test_share_of_rollouts_in_mixed_groups():
  # 128 prompts, 1024 rollouts, success sigmoid(d), d ~ N(-2, 4^2), 400 draws:
  # uniform 0.420, VIGOR 0.674, both measured by simulation.
  draws, num_prompts = 400, 128
  rng = np.random.default_rng(0)
  rate = 1 / (1 + np.exp(-rng.normal(-2, 4, (draws, num_prompts))))
  allocator = allocate.vigor()

  @jax.jit
  @jax.vmap
  def allocate_all(count, success, number, rows):
    mean = success / jnp.maximum(count, 1)
    m2 = count * mean * (1 - mean)
    tally = Tally(count.astype(jnp.int32), success, mean, m2)
    stats, key = columns.stats(num_prompts), jax.random.key(0)
    given = count.astype(jnp.int32)
    return allocator.counts(
      stats, tally, given, round=number, rows=rows, key=key
    )

  count = np.zeros((draws, num_prompts), np.float32)
  success = np.zeros_like(count)
  for number, rows in enumerate(allocator.rounds(1024, num_prompts)):
    numbers = np.full(draws, number, np.int32)
    rows = np.full(draws, rows, np.int32)
    new = np.asarray(allocate_all(count, success, numbers, rows))
    success += rng.binomial(new, rate).astype(np.float32)
    count += new
  assert (count.sum(axis=1) == 1024).all()
  mixed = (success > 0) & (success < count)
  uniform = rng.binomial(8, rate)
  for expected, share in (
    (0.420, ((uniform > 0) & (uniform < 8)).mean(axis=1)),
    (0.674, (mixed * count).sum(axis=1) / 1024),
  ):
    # Both this and the quoted figure are means of 400 draws; 0.0005 rounding.
    error = np.sqrt(2) * share.std(ddof=1) / np.sqrt(draws)
    assert abs(share.mean() - expected) < 5 * error + 0.0005
