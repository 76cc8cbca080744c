"""Equal counts, with a remainder of one row."""

import jax
import pytest

from jaxroll import allocate
from tests.allocate import columns


@pytest.mark.parametrize(
  "rows, expected",
  [
    (8, [2, 2, 2, 2]),
    (11, [3, 3, 3, 2]),
    (4, [1, 1, 1, 1]),
  ],
)
def test_remainder_goes_to_the_first_prompts(rows, expected):
  allocator = allocate.uniform()
  assert allocator.rounds(rows, 4) == (rows,)
  counts = allocator.counts(
    columns.stats(4), round=0, rows=rows, key=jax.random.key(0)
  )
  assert counts.tolist() == expected


def test_less_than_a_row_a_prompt_is_refused():
  with pytest.raises(ValueError, match="budget=3 with P=4"):
    allocate.uniform().rounds(3, 4)
