r"""Whose mean reward would one more rollout pin down most?

With s_i the standard deviation of the rewards of prompt i so far (ddof 1),
n_i of them, and T over all prompts, the next rollout goes to the highest

  h_i(n_i) - h_i(n_i + 1) + lam sqrt(log(1 + T) / n_i)
  h_i(n)  = t_{conf, n-1} s_i / sqrt(n)

the fall of the half-width of its confidence interval, and a bonus for prompts
that were tried little. Within a phase n_i and T grow and s_i stays; then the
rollouts are generated and s_i is taken again.

XRPO (2025), arXiv:2510.06672.
"""

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy import stats as scipy_stats

from jaxroll import numerics
from jaxroll.types import Allocator, PromptStats, Tally

# Degrees of freedom with a quantile of their own; more count as these.
_MOST_DF = 255


def xrpo(
  *, n0: int = 4, phases: int = 2, lam: float = 0.1, conf: float = 0.95
) -> Allocator:
  """A base phase, then rollouts one by one to the widest intervals.

  Args:
    n0: rollouts of every prompt in the base phase, >= 2: one has no interval.
    phases: further phases, >= 1, that share the rest of the budget equally.
    lam: of the bonus for prompts with few rollouts, >= 0.
    conf: of the confidence interval, in (0, 1).

  Returns:
    An `Allocator` of 1 + phases rounds that spends the whole budget; fewer
    where the budget ends with the base phase.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover the base phase.

  Example:
    >>> xrpo().rounds(64, 8)
    (32, 16, 16)

  Note:
    T counts rollouts and not training steps, which only rescales the bonus.
    n_i and T are scored rollouts. n0, phases and lam are derived here: the
    source does not state them. A phase takes time in proportion to its rows
    times P. The paper's seeding of prompts without a success is a change of
    context, not of counts, and not here.

  Reference:
    XRPO, 2025, arXiv:2510.06672.
  """
  if n0 < 2:
    raise ValueError(f"xrpo: n0={n0} must be >= 2: one row has no interval")
  if phases < 1:
    raise ValueError(f"xrpo: phases={phases} must be >= 1")
  if not lam >= 0:
    raise ValueError(f"xrpo: lam={lam} must be >= 0")
  table = t_table(conf)

  def rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
    first = n0 * num_prompts
    if budget < first:
      raise ValueError(
        f"xrpo: budget={budget} < n0*P={n0}*{num_prompts}: raise the budget "
        "or lower n0"
      )
    left = budget - first
    more = [left // phases + (i < left % phases) for i in range(phases)]
    return (first, *(rows for rows in more if rows))

  def counts(
    stats: PromptStats, tally: Tally, counts: jax.Array, *, round, rows, key
  ) -> jax.Array:
    del key
    chex.assert_equal_shape([stats.alpha, tally.count, counts])
    spread = numerics.safe_divide(tally.m2, tally.count - 1)
    std = jnp.sqrt(jnp.maximum(spread, 0.0))
    # Nothing to hand out one by one in the base phase.
    extra = jnp.where(round == 0, 0, jnp.asarray(rows, jnp.int32))
    more = phase(std, tally.count, extra, lam, table, where=counts > 0)
    return jnp.where(round == 0, n0, more)

  return Allocator(rounds=rounds, counts=counts)


def t_table(conf: float) -> np.ndarray:
  """Two-sided Student quantiles by degrees of freedom, made on the host.

  Args:
    conf: of the interval, in (0, 1).

  Returns:
    f32[256]; entry d is the quantile of d degrees of freedom, that of 0 is 0.

  Raises:
    ValueError: where conf is out of range.

  Example:
    >>> [round(float(t), 4) for t in t_table(0.95)[1:4]]
    [12.7062, 4.3027, 3.1824]
  """
  if not 0 < conf < 1:
    raise ValueError(f"xrpo: conf={conf} must be in (0, 1), for example 0.95")
  df = np.arange(1, _MOST_DF + 1)
  quantile = scipy_stats.t.ppf(0.5 + conf / 2, df)
  return np.concatenate([[0.0], quantile]).astype(np.float32)


def half_width(std: jax.Array, n: jax.Array, table) -> jax.Array:
  """Half the width of the confidence interval of a mean: t s / sqrt(n).

  Args:
    std: s, f32[P] >= 0, ddof 1.
    n: i32[P] rollouts.
    table: from `t_table`.

  Returns:
    f32[P]; 0 for n < 2, which have no interval, and where s = 0.

  Example:
    >>> wide = half_width(jnp.array([0.5]), jnp.array([4]), t_table(0.95))
    >>> round(float(wide[0]), 4)
    0.7956
  """
  t = jnp.asarray(table)[jnp.clip(n - 1, 0, _MOST_DF)]
  return t * std / jnp.sqrt(jnp.maximum(n, 1).astype(jnp.float32))


def priority(
  std: jax.Array, n: jax.Array, total: jax.Array, lam: float, table
) -> jax.Array:
  """How much a prompt's next rollout is worth.

  Args:
    std: s, f32[P] >= 0. n: i32[P] rollouts; 0 counts as 1 in the bonus.
    total: T, i32[], rollouts of all prompts.
    lam: of the bonus.
    table: from `t_table`.

  Returns:
    f32[P].

  Example:
    >>> n, table = jnp.array([4, 4, 4]), t_table(0.95)
    >>> std = jnp.array([0.0, 0.5, 0.4])
    >>> score = priority(std, n, jnp.array(12), 0.1, table)
    >>> [round(float(x), 4) for x in score[:2]]
    [0.0801, 0.2549]
  """
  # One rollout has no interval: it cannot fall.
  wide = half_width(std, n, table)
  fall = jnp.where(n > 1, wide - half_width(std, n + 1, table), 0.0)
  tried = jnp.maximum(n, 1).astype(jnp.float32)
  return fall + lam * jnp.sqrt(jnp.log1p(total.astype(jnp.float32)) / tried)


def phase(
  std: jax.Array, n: jax.Array, rows, lam: float, table, *, where: jax.Array
) -> jax.Array:
  """Rollouts of one phase, each to the prompt of highest priority.

  Args:
    std: s, f32[P] >= 0, held during the phase.
    n: i32[P], rollouts before it.
    rows: rollouts to give, may be traced.
    lam: of the bonus.
    table: from `t_table`.
    where: bool[P], prompts that may get rollouts.

  Returns:
    i32[P], the sum is `rows`; of equal priorities the lower index goes first.

  Example:
    >>> std, n = jnp.array([0.0, 0.5]), jnp.array([4, 4])
    >>> phase(std, n, 2, 0.1, t_table(0.95), where=n > 0).tolist()
    [0, 2]
  """

  def give(_, extra):
    now = n + extra
    total = jnp.sum(now)
    score = priority(std, now, total, lam, table)
    best = jnp.argmax(jnp.where(where, score, -jnp.inf))
    return extra.at[best].add(1)

  return lax.fori_loop(0, rows, give, jnp.zeros_like(n))
