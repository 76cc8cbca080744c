"""DARS: the second pass of hard prompts."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import allocate
from jaxroll.allocate import _dars, lift
from tests.allocate.stages import totals, wanted

EIGHTHS = jnp.array([0, 1, 2, 3, 4], jnp.float32) / 8


@pytest.mark.parametrize(
  "target, size, most, expected",
  [
    # Uncapped 27 at p = 0.
    (lift.equal_treatment, lift.plain, 32, [24, 11, 3, 1, 0]),
    (lift.hardness_weighted, lift.plain, 64, [56, 24, 8, 3, 0]),
    (lift.equal_treatment, lift.plain, 99, [27, 11, 3, 1, 0]),
    (lift.equal_treatment, lift.standardised, 32, [9, 5, 2, 1, 0]),
    (lift.hardness_weighted, lift.standardised, 64, [23, 14, 6, 3, 0]),
    (lift.equal_treatment, lift.plain, 8, [0, 0, 0, 0, 0]),
  ],
)
def test_extra(target, size, most, expected):
  extra = _dars.extra(EIGHTHS, n=8, most=most, target=target, size=size)
  assert extra.tolist() == expected
  easy = jnp.array([0.5, 0.6, 0.9, 1.0, 1.0], jnp.float32)
  kwargs = {"n": 8, "most": most, "target": target, "size": size}
  assert _dars.extra(easy, **kwargs).tolist() == [0] * 5


def test_cumulative_advantage():
  np.testing.assert_allclose(
    _dars.cumulative_advantage(EIGHTHS[1:], 8), [1.75, 3.0, 3.75, 4.0]
  )


def test_whole_numbers_stay_whole():
  # Without standardisation n + d = n / (2 p): 8 * 8 / (2 * 1) = 32 exactly,
  # and alike for other n with p = 1/n.
  for n in (4, 6, 10, 12, 16, 20):
    rate = jnp.full(1, 1 / n, jnp.float32)
    extra = _dars.extra(
      rate, n=n, most=999, target=lift.hardness_weighted, size=lift.plain
    )
    assert extra.tolist() == [n * n // 2 - n]


def test_step():
  table = [[1.0] + [0.0] * 31, [0.0] * 32, [1.0] * 32, [1.0, 1.0] + [0.0] * 30]
  # Wants 11, 24, 0 and 3 of the 96 rows of the second pass.
  assert totals(allocate.dars(), 128, table) == [19, 32, 8, 11]


def test_an_easy_batch_has_an_empty_second_pass():
  assert wanted(allocate.dars(), [[1.0] * 8] * 4, 32) == [0] * 4


def test_wants_shrink_in_proportion():
  # 24 and 11 of 35 wanted in 16 rows: 10.97 and 5.03.
  rewards = [[0.0] * 8, [1.0] + [0.0] * 7, [1.0] * 8, []]
  given = [8, 8, 8, 8]
  assert wanted(allocate.dars(), rewards, 16, given=given) == [11, 5, 0, 0]


def test_plan():
  assert allocate.dars().rounds(999, 4) == (32, 96)
  assert allocate.dars().rounds(64, 4) == (32, 32)
  with pytest.raises(ValueError, match="dars needs at least 33 .*budget=32"):
    allocate.dars().rounds(32, 4)


@pytest.mark.parametrize("hyper", [{"n": 0}, {"n": 8, "most": 8}])
def test_refuses(hyper):
  with pytest.raises(ValueError, match="must have 1 <= n < most"):
    allocate.dars(**hyper)
