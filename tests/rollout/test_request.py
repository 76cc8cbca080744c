"""Do counts become the right rows, and rows find their places?"""

import doctest

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import rollout, types
from jaxroll.rollout import generation, request, sampling, stopping


def test_fill():
  counts = jnp.array([2, 0, 3], jnp.int32)
  used = jnp.array([4, 7, 0], jnp.int32)
  asked = rollout.fill(
    counts, used, rows=7, step=jnp.int32(9), limit=jnp.int32(5), first_row=10
  )
  valid = [True] * 5 + [False] * 2
  assert asked.valid.tolist() == valid
  assert asked.group.tolist()[:5] == [0, 0, 2, 2, 2]
  # Prompt 0 has four rows already: its new ones are numbers 4 and 5.
  assert asked.index.tolist()[:5] == [4, 5, 0, 1, 2]
  assert asked.context.tolist()[:5] == [0, 0, 2, 2, 2]
  assert asked.row.tolist() == [10, 11, 12, 13, 14, 15, 16]
  assert asked.born.tolist() == [9] * 7 and asked.limit.tolist() == [5] * 7
  assert asked.given.shape == (7, 0)
  assert asked.given_length.tolist() == [0] * 7
  assert {x.dtype for x in jax.tree.leaves(asked)} == {
    jnp.dtype("int32"),
    jnp.dtype("bool"),
  }


def test_fill_does_not_compile_again():
  traces = []

  def run(counts, step):
    traces.append(None)
    return rollout.fill(
      counts, jnp.zeros_like(counts), rows=4, step=step, limit=step
    )

  jitted = jax.jit(run)
  one = jitted(jnp.array([4, 0, 0], jnp.int32), jnp.int32(1))
  two = jitted(jnp.array([1, 1, 1], jnp.int32), jnp.int32(2))
  assert one.group.tolist() == [0, 0, 0, 0] and one.valid.all()
  assert two.group.tolist()[:3] == [0, 1, 2] and two.valid.sum() == 3
  assert len(traces) == 1


def test_empty_has_no_rows():
  rows = rollout.empty(3, 4)
  assert isinstance(rows, types.Rollouts)
  for name, leaf in vars(rows).items():
    assert leaf.shape in ((3,), (3, 4)), name
    assert not np.asarray(leaf).any(), name
  assert rows.origin.dtype == jnp.int8 and rows.mask.dtype == bool


def test_place_writes_valid_rows_only():
  into = rollout.empty(5, 2)
  part = rollout.empty(3, 2).replace(
    length=jnp.array([1, 2, 1], jnp.int32),
    tokens=jnp.array([[3, 0], [4, 5], [6, 0]], jnp.int32),
    valid=jnp.array([True, False, True]),
  )
  # The row that is not valid points at a place that is taken.
  row = jnp.array([4, 0, 0], jnp.int32)
  out = rollout.place(into, part, row, part.valid)
  assert out.length.tolist() == [1, 0, 0, 0, 1]
  assert out.tokens.tolist() == [[6, 0], [0, 0], [0, 0], [0, 0], [3, 0]]
  assert out.valid.tolist() == [True, False, False, False, True]


@pytest.mark.parametrize("module", [generation, request, sampling, stopping])
def test_docstring_examples(module):
  result = doctest.testmod(module)
  assert result.attempted > 0 and result.failed == 0
