"""Which prompts are worth a rollout, given what was seen of each so far?

  p_i ~ Beta(alpha_i, beta_i),  I_i = p_i (1 - p_i)^2,  ids = top num of I_i

A Thompson draw over all prompts: the score is highest at a solve rate of 1/3
and 0 at 0 and 1, and what is unknown is still drawn. Forgetting is not here:
`posterior.observe(local=.5, decay=.999)` shrinks old counts fast where new
ones arrive and slowly everywhere.

VADE (2025), arXiv:2511.18902.
"""

from collections.abc import Callable

import jax

from jaxroll import posterior
from jaxroll.select._top import top
from jaxroll.types import PromptStats, Quota


def info_gain(rate: jax.Array) -> jax.Array:
  """Expected information of a rollout at a known solve rate: p (1 - p)^2.

  Args:
    rate: f32, solve rates in [0, 1].

  Returns:
    f32 of the same shape in [0, 4/27], largest at 1/3.

  Example:
    >>> float(info_gain(0.5))
    0.125

  Reference:
    VADE, 2025, arXiv:2511.18902.
  """
  return rate * (1 - rate) ** 2


def expected_gain(alpha: jax.Array, beta: jax.Array) -> jax.Array:
  """The mean of `info_gain` under a Beta posterior.

    E[p (1 - p)^2] = a b (b + 1) / (s (s + 1) (s + 2)),  s = a + b

  Args:
    alpha: f32, a > 0, prior included.
    beta: f32, b > 0, prior included.

  Returns:
    f32 of the same shape: VADE's score without Thompson noise.

  Example:
    >>> round(float(expected_gain(4.0, 6.0)), 6)
    0.127273

  Reference:
    VADE, 2025, arXiv:2511.18902.
  """
  total = alpha + beta
  return alpha * beta * (beta + 1) / (total * (total + 1) * (total + 2))


def vade(
  stats: PromptStats,
  pool: jax.Array,
  *,
  num: int,
  blocked: jax.Array | None = None,
  quota: Quota | None = None,
  key: jax.Array,
  gain: Callable = info_gain,
) -> jax.Array:
  """Thompson selection by expected information.

  Args:
    stats: PromptStats[N]; alpha and beta are read, prior included.
    pool: i32[M], ids that may be selected.
    num: ids wanted, 1 <= num <= M.
    blocked: bool[N], ids that must not be selected, or None.
    quota: types.Quota, or None.
    key: PRNG key of the draws, one for each of the N prompts.
    gain: score of a drawn solve rate, f32[N] -> finite f32[N]; p (1 - p) in
      place of the paper's shows what its asymmetry does.

  Returns:
    i32[num], distinct ids, best first, -1 where none is left.

  Raises:
    ValueError: where num is out of range.

  Example:
    >>> vade(posterior.init(4), jax.numpy.arange(4), num=2,
    ...     key=jax.random.key(0)).shape
    (2,)

  Note:
    Selection is over the whole pool. The two decay factors are derived here:
    the source does not state them.

  Reference:
    VADE, 2025, arXiv:2511.18902.
  """
  return top(gain(posterior.draw(stats, key)), pool, num, blocked, quota)
