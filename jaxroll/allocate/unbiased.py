"""What is the solve rate of a prompt whose outcomes said when to stop?

The mean of a sequence that stops by its own outcomes is biased. Of all orders
of s successes in n outcomes that do not stop before n, let k be the number,
and k1 the number of those that begin with a success. Then

  p_hat = k1 / k

is unbiased whatever the rule: all k orders are equally probable given (s, n),
so that p_hat = P(the first outcome is a success | s, n), and the first outcome
is not selected by anything (Girshick, Mosteller & Savage, "Unbiased estimates
for certain binomial sampling problems with applications", 1946, Annals of
Mathematical Statistics 17). Without a rule it is s / n; stopping at the r-th
success it is (r - 1) / (n - 1) (Haldane, 1945, Biometrika 33).

Note:
  Outcomes must be independent and come one at a time: rows of one prompt that
  end together may overshoot the rule, and rows that are cancelled must not
  differ from those that are not.
"""

import functools
from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np


def rate(
  success: jax.Array, count: jax.Array, *, stop: Callable, cap: int
) -> jax.Array:
  """Unbiased solve rate after a stop that outcomes decided.

  Args:
    success: i32[...], s.
    count: i32[...], n.
    stop: (successes, failures) -> bool, Python numbers: whether a sequence
      ends here; `until_mixed`, `until_successes` or another.
    cap: most outcomes of a prompt, static; a sequence ends there too.

  Returns:
    f32[...] in [0, 1]; the mean s / n where the rule allows no such counts,
    which is biased, and 0 where n = 0.

  Raises:
    ValueError: where cap < 1.

  Example:
    >>> rate(jnp.array([1, 1, 3]), jnp.array([2, 5, 3]),
    ...      stop=until_mixed(), cap=8).tolist()
    [0.5, 0.0, 1.0]

  Reference:
    Girshick, Mosteller & Savage, 1946.
  """
  if cap < 1:
    raise ValueError(f"unbiased.rate: cap={cap} must be >= 1")
  chex.assert_equal_shape([success, count])
  table = jnp.asarray(_table(stop, cap))
  s, n = success.astype(jnp.int32), count.astype(jnp.int32)
  at = (jnp.clip(s, 0, cap), jnp.clip(n, 0, cap))
  known = (n <= cap) & (table[at] >= 0)
  mean = s.astype(jnp.float32) / jnp.maximum(n, 1).astype(jnp.float32)
  return jnp.where(known, table[at], mean)


@functools.cache
def until_mixed(balance: int = 1) -> Callable:
  """The rule that stops once both outcomes have been seen `balance` times.

  Args:
    balance: >= 1.

  Returns:
    A `stop` for `rate`.

  Raises:
    ValueError: where balance < 1.

  Example:
    >>> until_mixed()(3, 1), until_mixed()(3, 0)
    (True, False)
  """
  if balance < 1:
    raise ValueError(f"until_mixed: balance={balance} must be >= 1")
  return lambda successes, failures: min(successes, failures) >= balance


@functools.cache
def until_successes(r: int) -> Callable:
  """The rule that stops at the r-th success: inverse binomial sampling.

  Args:
    r: >= 2; after one success nothing is known of the first outcome.

  Returns:
    A `stop` for `rate`.

  Raises:
    ValueError: where r < 2.

  Example:
    >>> float(rate(jnp.int32(3), jnp.int32(9), stop=until_successes(3), cap=99))
    0.25
  """
  if r < 2:
    raise ValueError(f"until_successes: r={r} must be >= 2")
  return lambda successes, failures: successes >= r


@functools.lru_cache(maxsize=64)
def _table(stop: Callable, cap: int) -> np.ndarray:
  """k1 / k by successes and outcomes, f32[cap + 1, cap + 1]; -1: k = 0."""
  table = np.full((cap + 1, cap + 1), -1.0, np.float32)
  # successes -> (k, k1), in Python's integers: they are exact at any cap.
  paths = {0: (1, 0), 1: (1, 1)}
  for n in range(1, cap + 1):
    for s, (k, first) in paths.items():
      table[s, n] = first / k
    ahead: dict[int, tuple[int, int]] = {}
    for s, (k, first) in paths.items():
      if stop(s, n - s):
        continue
      for to in (s, s + 1):
        old = ahead.get(to, (0, 0))
        ahead[to] = (old[0] + k, old[1] + first)
    paths = ahead
  return table
