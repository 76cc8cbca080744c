"""What if every prompt gets the same number of rollouts?

  counts_i = floor(rows / P) + [i < rows mod P]

The fixed group size G = rows / P of GRPO (Shao et al. 2024, arXiv:2402.03300)
and the baseline of every adaptive allocator.
"""

import jax
import jax.numpy as jnp

from jaxroll.types import Allocator, PromptStats


def uniform() -> Allocator:
  """Equal counts in one round; a remainder goes to the first prompts.

  Returns:
    An `Allocator` of one round that spends the whole budget, counts within 1
    of each other.

  Raises:
    ValueError: from `rounds`, where the budget is below one row a prompt.

  Example:
    >>> uniform().rounds(8, 4)
    (8,)

  Reference:
    Shao et al. 2024, arXiv:2402.03300.
  """
  return Allocator(rounds=_rounds, counts=_counts)


def _rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
  if not 1 <= num_prompts <= budget:
    raise ValueError(
      f"uniform: budget={budget} with P={num_prompts} is not in 1 <= P <= "
      "budget: raise the budget or select fewer prompts"
    )
  return (budget,)


def _counts(stats: PromptStats, *, round, rows, key) -> jax.Array:
  del round, key
  num_prompts = stats.alpha.shape[0]
  rows = jnp.asarray(rows, jnp.int32)
  place = jnp.arange(num_prompts, dtype=jnp.int32)
  extra = place < rows % num_prompts
  return rows // num_prompts + extra.astype(jnp.int32)
