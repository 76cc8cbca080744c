"""What does one sample score on average?

  avg@k = (1/N) sum_i (1/n_i) sum_j score_ij

The mean is taken by prompt first, so that every prompt counts the same however
many of its samples were scored (Miller, 2024, arXiv:2411.00640).
"""

from jaxroll import numerics
from jaxroll.evaluate import _estimate


def avg_at_k(score, where=None):
  """Mean score of a sample, over prompts; for 0/1 scores it is pass@1.

  Args:
    score: [N, k], any real dtype; unread where `where` is False.
    where: bool[N, k], scored samples; None for all.

  Returns:
    Estimate; the standard error is that of the N prompts' means, so it is
    clustered by prompt. A prompt without a scored sample is omitted.

  >>> estimate = avg_at_k([[1.0, 0.0], [1.0, 1.0]])
  >>> float(estimate.mean), float(estimate.standard_error)
  (0.75, 0.25)

  Reference: Miller, "Adding error bars to evals", 2024, arXiv:2411.00640.
  """
  score, where = _estimate.scored(score, where)
  value = numerics.masked_mean(score, where, axis=1)
  return _estimate.over_all(value, where.any(axis=1))
