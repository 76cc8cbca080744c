"""How likely is at least one of k samples right?

  pass@k = (1/N) sum_i [1 - C(n_i - c_i, k) / C(n_i, k)]

of c_i right ones among n_i scored samples: the unbiased estimator of Chen et
al., "Evaluating large language models trained on code", 2021,
arXiv:2107.03374 (eq. 1).
"""

import jax.numpy as jnp

from jaxroll.evaluate import _estimate


def pass_at_k(correct, k, where=None):
  """Probability that one of k samples is right, over prompts.

  The ratio of binomials is prod_{j<k} (n - c - j) / (n - j), 0 as soon as
  fewer than k samples are wrong.

  Args:
    correct: bool or int[N, n], right (not 0) or wrong (0); unread where
      `where` is False.
    k: samples per attempt, static, >= 1.
    where: bool[N, n], scored samples; None for all.

  Returns:
    Estimate. A prompt with fewer than k scored samples has no unbiased
    estimate and is omitted. The standard error is over prompts; at k = 1 it
    is therefore clustered by prompt, and larger than that of N n independent
    samples.

  Raises:
    ValueError: k < 1, or `correct` holds floats.

  Note:
    Leaving out prompts with too few samples favours prompts whose samples
    could be scored: look at `omitted`. Chen et al. have n >= k everywhere.

  >>> estimate = pass_at_k(jnp.array([[0, 0, 0, 1], [0, 0, 0, 0]]), 4)
  >>> float(estimate.mean), int(estimate.count)
  (0.5, 2)

  Reference: Chen et al., 2021, arXiv:2107.03374.
  """
  if k < 1:
    raise ValueError(f"k={k}: an attempt needs k >= 1 samples.")
  correct, where = _estimate.scored(correct, where)
  correct = _estimate.right(correct)
  n = jnp.sum(where, axis=1, dtype=jnp.int32)[:, None]
  c = jnp.sum(correct & where, axis=1, dtype=jnp.int32)[:, None]
  j = jnp.arange(k, dtype=jnp.int32)[None]
  wrong = jnp.maximum(n - c - j, 0).astype(jnp.float32)
  # n <= j only where the prompt is omitted.
  left = jnp.maximum(n - j, 1).astype(jnp.float32)
  value = 1 - jnp.prod(wrong / left, axis=1)
  return _estimate.over_all(value, n[:, 0] >= k)
