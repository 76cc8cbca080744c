"""How many rollouts give a hard prompt the weight of one at solve rate 1/2?

A first pass of n rollouts estimates p (0.5/n where it is 0). Prompts below 1/2
get d more, so that their cumulative advantage reaches the target, see
`allocate.lift`:

  d = min(ceil((t(p) n S(1/2) - n S(p)) / S(p)), n_max - n),  0 for p >= 1/2

Both passes are trained as one group.

DARS: Yang et al. (2025), arXiv:2508.13755.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.allocate import lift
from jaxroll.allocate._stages import stages
from jaxroll.types import Allocator, Tally


def dars(
  *,
  n: int = 8,
  most: int = 32,
  target: Callable = lift.equal_treatment,
  size: Callable = lift.plain,
) -> Allocator:
  """A second pass that lifts the cumulative advantage of hard prompts.

  Args:
    n: rollouts of every prompt in the first pass, >= 1.
    most: n_max, rollouts of a prompt in both passes, > n; the paper has 32 for
      equal treatment and 64 for hardness weighting.
    target: t(p) of `allocate.lift`: equal_treatment or hardness_weighted.
    size: S(p) of `allocate.lift`: plain, or standardised where the advantage
      is divided by its standard deviation.

  Returns:
    An `Allocator` of two rounds.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover the first pass and one row more.

  Example:
    >>> dars(n=4, most=8).rounds(24, 4)
    (16, 8)

  Note:
    The paper has no budget. Here the second pass has what the first leaves of
    it; where the hard prompts want more, all wants shrink in proportion. A
    prompt without a scored row gets no second pass.

  Reference:
    Yang et al., 2025, arXiv:2508.13755.
  """
  if not 1 <= n < most:
    raise ValueError(f"dars: n={n}, most={most} must have 1 <= n < most")

  def want(tally: Tally, given: jax.Array) -> jax.Array:
    del given
    rate = numerics.safe_divide(tally.success, tally.count)
    d = extra(rate, n=n, most=most, target=target, size=size)
    return jnp.where(tally.count > 0, d, 0)

  return stages("dars", (n, most - n), want)


def extra(
  rate: jax.Array, *, n: int, most: int, target: Callable, size: Callable
) -> jax.Array:
  """Rollouts of the second pass.

  Args:
    rate: f32[P], solve rates of the first pass in [0, 1].
    n: rollouts of the first pass.
    most: rollouts of both.
    target, size: t(p) and S(p) of `allocate.lift`.

  Returns:
    i32[P] in [0, max(most - n, 0)].

  Example:
    >>> extra(jnp.array([0.125, 0.25, 0.5]), n=8, most=32,
    ...       target=lift.equal_treatment, size=lift.plain).tolist()
    [11, 3, 0]
  """
  rate = jnp.where(rate > 0, rate, 0.5 / n).astype(jnp.float32)
  rate = jnp.minimum(rate, 0.5)
  peak = size(jnp.full_like(rate, 0.5))
  lacking = n * (target(rate) * peak - size(rate)) / size(rate)
  # What is whole must not be rounded up by a floating-point error.
  whole = jnp.ceil(lacking - 1e-4).astype(jnp.int32)
  return jnp.where(rate < 0.5, jnp.clip(whole, 0, max(most - n, 0)), 0)


def cumulative_advantage(
  rate: jax.Array, n: jax.Array, *, size: Callable = lift.plain
) -> jax.Array:
  """Sum of the absolute advantages of a group: n S(p).

  Args:
    rate: f32[P], solve rates in [0, 1].
    n: rollouts of each group.
    size: S(p) of `allocate.lift`.

  Returns:
    f32[P].

  Example:
    >>> cumulative_advantage(jnp.array([0.125, 0.5]), 8).tolist()
    [1.75, 4.0]
  """
  return n * size(rate)
