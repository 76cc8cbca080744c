"""XRPO's allocation: worked values, a loop in numpy, phases and empty slots."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate
from jaxroll.allocate import _xrpo
from tests.allocate import columns

KEY = jax.random.key(0)
TABLE = _xrpo.t_table(0.95)


def test_student_quantiles():
  # Of 97.5 %, from printed tables.
  expected = [12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912]
  np.testing.assert_allclose(TABLE[1:7], expected, rtol=1e-6)
  np.testing.assert_allclose(TABLE[15], 2.131450, rtol=1e-6)
  assert TABLE.shape == (256,) and TABLE[0] == 0


def test_half_width():
  std, n = jnp.array([0.5, 0.5, 0.5]), jnp.array([4, 5, 1])
  wide = _xrpo.half_width(std, n, TABLE)
  # 3.182446 / 4, 2.776445 / 2 / sqrt(5), and no interval of one rollout.
  np.testing.assert_allclose(wide, [0.795612, 0.620832, 0.0], rtol=1e-5)
  # Beyond the table the quantile stays.
  far = _xrpo.half_width(std[:1], jnp.array([1000]), TABLE)
  np.testing.assert_allclose(far, TABLE[255] / 2 / np.sqrt(1000), rtol=1e-6)


def test_priority():
  std, n = jnp.array([0.0, 0.5, 0.433013]), jnp.full(3, 4, jnp.int32)
  score = _xrpo.priority(std, n, jnp.int32(12), 0.1, TABLE)
  np.testing.assert_allclose(score, [0.080077, 0.254857, 0.231441], rtol=1e-5)
  # The bonus alone: 0.1 sqrt(log 13) for one rollout, and for none.
  one = _xrpo.priority(std, n - 3, jnp.int32(12), 0.1, TABLE)
  none = _xrpo.priority(std, n - 4, jnp.int32(12), 0.1, TABLE)
  np.testing.assert_allclose(one, np.full(3, 0.160154), rtol=1e-5)
  np.testing.assert_array_equal(none, one)


def test_worked_phase():
  # All wrong, half right, three of four right.
  tally = columns.tally([[0, 0, 0, 0], [0, 1, 0, 1], [1, 1, 1, 0]])
  given = jnp.full(3, 4, jnp.int32)
  counts = allocate.xrpo().counts(
    columns.stats(3), tally, given, round=1, rows=6, key=KEY
  )
  assert counts.tolist() == [0, 3, 3]


def test_a_phase_is_the_loop_of_the_paper():
  rng = np.random.default_rng(1)
  std, n = rng.uniform(0, 0.6, 8), rng.integers(2, 6, 8)
  now = n.copy()
  for _ in range(40):
    wide = TABLE[now - 1] * std / np.sqrt(now)
    next_wide = TABLE[now] * std / np.sqrt(now + 1)
    bonus = 0.3 * np.sqrt(np.log(1 + now.sum()) / now)
    now[np.argmax(wide - next_wide + bonus)] += 1
  extra = _xrpo.phase(
    jnp.asarray(std, jnp.float32),
    jnp.asarray(n, jnp.int32),
    40,
    0.3,
    TABLE,
    where=jnp.ones(8, bool),
  )
  np.testing.assert_array_equal(extra, now - n)


def test_the_bonus_keeps_flat_groups_in_play():
  # Without it nothing is gained where nothing varies: the first place takes
  # all. With it they share, the lower place first.
  tally = columns.tally([[1.0] * 4] * 3)
  given = jnp.full(3, 4, jnp.int32)
  give = lambda lam: allocate.xrpo(lam=lam).counts(  # noqa: E731
    columns.stats(3), tally, given, round=1, rows=5, key=KEY
  )
  assert give(0.0).tolist() == [5, 0, 0]
  assert give(0.1).tolist() == [2, 2, 1]


def test_unscored_and_empty_prompts():
  # Prompt 0 is an empty slot, prompt 1 has rollouts that nothing scored: it
  # has no interval, and the largest bonus.
  counts = allocate.xrpo().counts(
    columns.stats(3),
    columns.tally([[], [], [1.0, 1.0, 1.0, 1.0]]),
    jnp.array([0, 4, 4], jnp.int32),
    round=2,
    rows=4,
    key=KEY,
  )
  assert counts.tolist() == [0, 4, 0]


def test_rounds():
  assert allocate.xrpo().rounds(64, 8) == (32, 16, 16)
  assert allocate.xrpo(phases=3).rounds(40, 8) == (32, 3, 3, 2)
  assert allocate.xrpo().rounds(33, 8) == (32, 1)


@pytest.mark.parametrize(
  "hyper, words",
  [
    ({"n0": 1}, "n0=1"),
    ({"phases": 0}, "phases=0"),
    ({"lam": -0.1}, "lam=-0.1"),
    ({"conf": 1.0}, "conf=1.0"),
  ],
)
def test_bad_numbers_are_refused(hyper, words):
  with pytest.raises(ValueError, match=words):
    allocate.xrpo(**hyper)


def test_share_of_rollouts_in_mixed_groups():
  # 32 prompts, p ~ Beta(.4, .6), 4 rollouts each and 128 more. By simulation
  # 0.633 of all rollouts are in mixed groups and 0.577 with equal counts; but
  # fewer groups are mixed, 0.528: flat ones are starved.
  draws, rng = 200, np.random.default_rng(0)
  rate = rng.beta(0.4, 0.6, (draws, 32))
  count = np.full(rate.shape, 4)
  success = rng.binomial(count, rate)
  add = jax.jit(
    jax.vmap(lambda std, n: _xrpo.phase(std, n, 64, 0.1, TABLE, where=n > 0))
  )
  for _ in range(2):
    spread = success * (count - success) / (count * (count - 1))
    new = np.asarray(add(np.sqrt(spread).astype(np.float32), count))
    success, count = success + rng.binomial(new, rate), count + new
  assert (count.sum(axis=1) == 256).all()
  mixed = (success > 0) & (success < count)
  equal = rng.binomial(8, rate)
  # About 5 sigma of 200 draws.
  assert (mixed * count).sum() / count.sum() == pytest.approx(0.633, abs=0.025)
  assert mixed.mean() == pytest.approx(0.528, abs=0.025)
  assert ((equal > 0) & (equal < 8)).mean() == pytest.approx(0.577, abs=0.025)
