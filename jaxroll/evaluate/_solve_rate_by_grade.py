"""How often is a sample right, at each difficulty grade?

rate_g = mean over the prompts i of grade g of (1/n_i) sum_j correct_ij
"""

import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.evaluate import _estimate


def solve_rate_by_grade(correct, grade, num_grades, where=None):
  """Solve rate of a sample by difficulty grade.

  Args:
    correct: bool or int[N, n], right (not 0) or wrong (0); unread where
      `where` is False.
    grade: i32[N]; prompts outside [0, num_grades) are dropped.
    num_grades: static.
    where: bool[N, n], scored samples; None for all.

  Returns:
    Estimate with arrays [num_grades], standard errors over a grade's prompts.

  Raises:
    ValueError: `correct` holds floats.

  >>> solve_rate_by_grade(
  ...   jnp.array([[1, 1], [0, 1], [0, 0]]), jnp.array([0, 0, 1]), 2).mean
  Array([0.75, 0.  ], dtype=float32)
  """
  correct, where = _estimate.scored(correct, where)
  value = numerics.masked_mean(_estimate.right(correct), where, axis=1)
  grade = jnp.asarray(grade, jnp.int32)
  return _estimate.over_prompts(value, where.any(axis=1), grade, num_grades)
