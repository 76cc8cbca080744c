"""How is a budget spent on solve rates that are only believed?

  p_i ~ Beta(alpha_i, beta_i),   n = argmax sum_i sum_{h < n_i} gain(p_i, h)

One draw a prompt, then each rollout goes where its gain at the drawn rates is
largest: what is well known is used, what is not is tried in proportion to the
chance that it is best.

Thompson 1933, "On the likelihood that one unknown probability exceeds another
in view of the evidence of two samples", Biometrika 25,
doi:10.1093/biomet/25.3-4.285.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from jaxroll import apportion, numerics, posterior
from jaxroll.types import Allocator, PromptStats


def thompson(
  *,
  floor: int = 1,
  cap: int = 16,
  gain: Callable = apportion.mixed_gain,
) -> Allocator:
  """Greedy rollouts at solve rates drawn from the posteriors.

  Args:
    floor: rollouts that every prompt gets, >= 1.
    cap: most rollouts of a prompt, > floor.
    gain: (p f32[P], have i32[P]) -> f32[P], worth of one more rollout after
      `have`, not increasing in have >= floor.
      `apportion.mixed_gain` is the growth of the chance of a mixed group,
      `apportion.variance_gain` the fall of the variance of the mean.

  Returns:
    An `Allocator` of one round that spends min(budget, P cap) rows.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover the floor.

  Example:
    >>> thompson(floor=2, cap=8).rounds(48, 4)
    (32,)

  Note:
    The draws are dealt in the order of the beliefs, so that a prompt's place
    in the step matters only where two beliefs are the same. The combination
    with a greedy gain is derived here: Thompson samples one choice at a time.

  Reference:
    Thompson 1933, doi:10.1093/biomet/25.3-4.285.
  """
  if not 1 <= floor < cap:
    raise ValueError(
      f"thompson: floor={floor}, cap={cap} must have 1 <= floor < cap"
    )

  def rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
    if budget < floor * num_prompts:
      raise ValueError(
        f"thompson: budget={budget} < floor*P={floor}*{num_prompts}: raise "
        "the budget or lower floor"
      )
    return (min(budget, cap * num_prompts),)

  def counts(stats: PromptStats, *, round, rows, key) -> jax.Array:
    del round
    rate = draw(stats, key)
    have = jnp.full(rate.shape, floor, jnp.int32)
    gains = apportion.gain_table(
      lambda have: gain(rate, have), have, cap - floor
    )
    more = jnp.asarray(rows, jnp.int32) - jnp.sum(have)
    return have + apportion.greedy(gains, more)

  return Allocator(rounds=rounds, counts=counts)


def draw(stats: PromptStats, key: jax.Array) -> jax.Array:
  """One solve rate a prompt, whatever the prompts' places are.

  Args:
    stats: PromptStats[P]; alpha and beta are read.
    key: PRNG key.

  Returns:
    f32[P] in [0, 1]; permuting prompts of different beliefs permutes it.

  Example:
    >>> draw(posterior.init(3), jax.random.key(0)).shape
    (3,)
  """
  chex.assert_rank([stats.alpha, stats.beta], 1)
  rank = numerics.rank_by(stats.alpha, stats.beta)
  place = jnp.arange(rank.shape[0], dtype=jnp.int32)
  order = jnp.zeros_like(rank).at[rank].set(place, unique_indices=True)
  ordered = jax.tree.map(lambda x: x[order], stats)
  return posterior.draw(ordered, key)[rank]
