"""How often is the answer that most samples give the right one?

  maj@k = (1/N) sum_i (1/|W_i|) sum_{a in W_i} correct_ia

with W_i the answers of prompt i that most of its k samples give: a tie is
split, which is what breaking it at random gives on average (self-consistency,
Wang et al., 2022, arXiv:2203.11171).
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.evaluate import _estimate


def maj_at_k(correct, answer, where=None):
  """Share of prompts whose most frequent answer is right.

  Args:
    correct: bool or int[N, k], right (not 0) or wrong (0); unread where
      `where` is False.
    answer: i32[N, k]; samples of a prompt with equal numbers gave the same
      answer, a number below 0 is no answer and has no vote.
    where: bool[N, k], scored samples; None for all.

  Returns:
    Estimate with standard errors over prompts. Of samples that gave one answer
    and were scored differently, the mean counts. A prompt whose scored samples
    gave no answer is wrong; one without a scored sample is omitted.

  Raises:
    ValueError: `correct` holds floats.

  >>> estimate = maj_at_k([[1, 1, 0], [1, 0, 0]], [[7, 7, 4], [7, 4, 4]])
  >>> float(estimate.mean)
  0.5

  Reference: Wang et al., 2022, arXiv:2203.11171.

  Note:
    All scored samples vote, so that k is the number of samples: unlike pass@k
    it is no estimate of the same vote among fewer.
  """
  correct, where = _estimate.scored(correct, where)
  correct = _estimate.right(correct)
  answer = jnp.asarray(answer)
  chex.assert_equal_shape([correct, answer])
  votes = where & (answer >= 0)
  same = (answer[:, :, None] == answer[:, None, :]) & votes[:, None, :]
  count = jnp.where(votes, jnp.sum(same, axis=2, dtype=jnp.int32), 0)
  # Tied answers have equally many samples: a mean over them all is the split.
  most = jnp.max(count, axis=1, keepdims=True)
  value = numerics.masked_mean(correct, votes & (count == most), axis=1)
  return _estimate.over_all(value, where.any(axis=1))
