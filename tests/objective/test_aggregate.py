"""The aggregations' typed-in values."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll.objective import aggregate

MASK = jnp.array([[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]], bool)
GROUP = jnp.array([0, 0, 1, 2], jnp.int32)
LOSS = np.arange(16.0).reshape(4, 4)
# Trained losses by row: [0], [4, 5, 6], none, [13, 15].


@pytest.mark.parametrize(
  "name, arguments, hyper, expected",
  [
    ("token_mean", (), {}, (0 + 15 + 28) / 6),
    ("sequence_mean", (), {}, (0 + 5 + 14) / 3),
    ("constant_length", (), {"limit": 10}, (0 + 1.5 + 2.8) / 3),
    # Prompt 0 has tokens [0, 4, 5, 6], prompt 1 none, prompt 2 [13, 15].
    ("prompt_mean", (GROUP,), {"num_groups": 4}, (15 / 4 + 14) / 2),
  ],
)
def test_value(name, arguments, hyper, expected):
  weights = getattr(aggregate, name)(MASK, *arguments, **hyper)
  np.testing.assert_allclose((np.asarray(weights) * LOSS).sum(), expected)


def test_constant_length_refuses_an_empty_limit():
  with pytest.raises(ValueError, match="limit=0 must be >= 1"):
    aggregate.constant_length(MASK, limit=0)
