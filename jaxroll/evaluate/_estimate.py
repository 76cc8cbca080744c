"""What is a mean over prompts, and its standard error?

  mean = sum_i x_i / N,   standard error = sqrt(var(x, ddof=1) / N)

over the N prompts that have a value. Prompts, not samples, are the unit: the
samples of one prompt share its difficulty, and counting them as independent
understates the error (Miller, "Adding error bars to evals", 2024,
arXiv:2411.00640, clustered standard errors with the prompt as the cluster).
"""

from typing import NamedTuple

import chex
import jax.numpy as jnp

from jaxroll import numerics


class Estimate(NamedTuple):
  """A mean over prompts.

  Attributes:
    mean: f32[...], NaN where no prompt has a value.
    standard_error: f32[...], of the mean over prompts drawn anew; NaN for
      fewer than two prompts, from which it cannot be told.
    count: i32[...], prompts in the mean.
    omitted: i32[...], prompts without a value.
  """

  mean: chex.Array
  standard_error: chex.Array
  count: chex.Array
  omitted: chex.Array


def over_prompts(value, defined, group, num_groups):
  """Estimate of the mean of each group of prompts.

  Args:
    value: f32[N]; unread where `defined` is False.
    defined: bool[N], prompts that have a value.
    group: i32[N]; prompts outside [0, num_groups) are dropped.
    num_groups: static.

  Returns: Estimate with arrays [num_groups].
  """
  groups = (group, num_groups, defined)
  count, mean, _ = numerics.group_moments(value, *groups)
  error = numerics.group_std(value, *groups) / jnp.sqrt(jnp.maximum(count, 1))
  return Estimate(
    mean=jnp.where(count > 0, mean, jnp.nan),
    standard_error=jnp.where(count > 1, error, jnp.nan),
    count=count.astype(jnp.int32),
    omitted=numerics.group_count(group, num_groups, ~defined),
  )


def over_all(value, defined):
  """Estimate of the mean over all prompts.

  Args:
    value: f32[N]; unread where `defined` is False.
    defined: bool[N], prompts that have a value.

  Returns: Estimate of scalars.
  """
  group = jnp.zeros(value.shape, jnp.int32)
  return Estimate(*(x[0] for x in over_prompts(value, defined, group, 1)))


def scored(samples, where):
  """Samples as an array, and which of them count: all, if `where` is None."""
  samples = jnp.asarray(samples)
  chex.assert_rank(samples, 2)
  if where is None:
    return samples, jnp.ones(samples.shape, jnp.bool_)
  where = jnp.asarray(where, jnp.bool_)
  chex.assert_equal_shape([samples, where])
  return samples, where


def right(correct):
  """Samples as bool; refuses scores where right or wrong is asked for."""
  if jnp.issubdtype(correct.dtype, jnp.floating):
    raise ValueError(
      f"correct has dtype {correct.dtype}: give bool or int, right or wrong; "
      "threshold a score first, or average it with avg_at_k."
    )
  return correct.astype(jnp.bool_)
