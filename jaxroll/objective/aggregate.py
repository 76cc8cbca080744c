"""What does a token count for in the loss?

Each function returns weights f32[B, T], so that `sum(weights * loss)` is the
average it is named after. They are made from the whole optimiser batch before
it is cut into micro-batches: a sum over parts is the sum, so every split gives
the same value and gradient. With l_it the loss of token t of row i, n_i its
trained tokens, R the rows with any:

  token_mean        sum_it l_it / sum_i n_i                 Yu et al. 2025
  sequence_mean     1/R sum_i (1/n_i sum_t l_it)            Shao et al. 2024
  constant_length   1/R sum_i (1/limit sum_t l_it)          Liu et al. 2025
  prompt_mean       mean over prompts of their token_mean

Weights are 0 where the mask is False, and everywhere if all of it is: the loss
is then 0 with finite gradients.

Papers: Yu et al. 2025 (DAPO), arXiv:2503.14476; Shao et al. 2024 (GRPO),
arXiv:2402.03300; Liu et al. 2025 (Dr. GRPO), arXiv:2503.20783.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics

__all__ = ["constant_length", "prompt_mean", "sequence_mean", "token_mean"]


def token_mean(mask: chex.Array) -> chex.Array:
  """Every token of the batch counts the same.

  `weight_it = mask_it / sum_jt mask_jt`

  Args:
    mask: bool[B, T], trained tokens.

  Returns:
    f32[B, T], sums to 1, or to 0 if nothing is trained.

  Example:
    >>> token_mean(jnp.array([[True, False], [True, True]])).round(3).tolist()
    [[0.3330000042915344, 0.0], [0.3330000042915344, 0.3330000042915344]]

  Reference:
    Yu et al. 2025, arXiv:2503.14476, eq. 12.
  """
  chex.assert_rank(mask, 2)
  return numerics.safe_divide(mask, jnp.sum(mask))


def sequence_mean(mask: chex.Array) -> chex.Array:
  """Every row counts the same, and every token within its row.

  `weight_it = mask_it / (n_i R)`

  Args:
    mask: bool[B, T], trained tokens.

  Returns:
    f32[B, T], sums to 1, or to 0 if nothing is trained.

  Example:
    >>> sequence_mean(jnp.array([[True, False], [True, True]])).tolist()
    [[0.5, 0.0], [0.25, 0.25]]

  Reference:
    Shao et al. 2024, arXiv:2402.03300, eq. 3.
  """
  length, rows = _lengths(mask)
  return numerics.safe_divide(mask, (length * rows)[:, None])


def constant_length(mask: chex.Array, *, limit: int) -> chex.Array:
  """Every token counts 1/limit in the mean over rows.

  `weight_it = mask_it / (limit R)`: the row's length does not change what its
  tokens count for.

  Args:
    mask: bool[B, T], trained tokens.
    limit: tokens by which every row is divided, >= 1, the same for a whole
      run; T, for instance.

  Returns:
    f32[B, T], sums to the mean length over `limit`.

  Raises:
    ValueError: if `limit` is less than 1.

  Note:
    `limit` has no default: bind it with `functools.partial`. The paper's rows
    all count; here rows without a trained token do not.

  Example:
    >>> mask = jnp.array([[True, False], [True, True]])
    >>> constant_length(mask, limit=4).tolist()
    [[0.125, 0.0], [0.125, 0.125]]

  Reference:
    Liu et al. 2025, arXiv:2503.20783, section 3.2.
  """
  if limit < 1:
    raise ValueError(
      f"limit={limit} must be >= 1: use the most tokens a row can have"
    )
  _, rows = _lengths(mask)
  return numerics.safe_divide(mask, rows * limit)


def prompt_mean(
  mask: chex.Array, group: chex.Array, *, num_groups: int
) -> chex.Array:
  """Every prompt counts the same, and every token within its prompt.

  `weight_it = mask_it / (tokens of i's prompt * prompts with any token)`

  Args:
    mask: bool[B, T], trained tokens.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    num_groups: P, static.

  Returns:
    f32[B, T], sums to 1, or to 0 if nothing is trained.

  Note:
    Uneven allocation makes this differ from `token_mean`: a prompt with four
    times the rows does not get four times the gradient.

  Example:
    >>> mask = jnp.array([[True, False], [True, False], [True, True]])
    >>> prompt_mean(mask, jnp.array([0, 0, 1]), num_groups=2).tolist()
    [[0.25, 0.0], [0.25, 0.0], [0.25, 0.25]]
  """
  length, _ = _lengths(mask)
  chex.assert_equal_shape([group, length])
  tokens = numerics.group_sum(length, group, num_groups, length > 0)
  prompts = jnp.sum((tokens > 0).astype(jnp.float32))
  return numerics.safe_divide(mask, (tokens[group] * prompts)[:, None])


def _lengths(mask: chex.Array) -> tuple[chex.Array, chex.Array]:
  """Trained tokens of each row, f32[B]; number of rows with any, f32[]."""
  chex.assert_rank(mask, 2)
  length = jnp.sum(mask, axis=1).astype(jnp.float32)
  return length, jnp.sum((length > 0).astype(jnp.float32))
