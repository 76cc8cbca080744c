"""What do the rules of a free slot share? An opening and a cap."""

import jax
import jax.numpy as jnp

from jaxroll.types import PromptStats


def opening(name: str, floor: int, cap: int | None):
  """The static plan and the opening rows of a rule.

  Args:
    name: of the rule, for messages.
    floor: rows of each prompt before any gain is looked at, >= 1.
    cap: most rows of a prompt, >= floor, or None for no bound.

  Returns:
    rounds and counts, as `types.Allocator` has them.

  Raises:
    ValueError: where a number is out of range; from rounds, where the budget
      is below the opening.
  """
  if floor < 1:
    raise ValueError(f"{name}: floor={floor} must be >= 1")
  if cap is not None and cap < floor:
    raise ValueError(f"{name}: cap={cap} < floor={floor}: raise the cap")

  def rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
    if budget < floor * num_prompts:
      raise ValueError(
        f"{name}: budget={budget} < floor={floor} * P={num_prompts}: raise the "
        f"budget to at least {floor * num_prompts} or lower floor"
      )
    return (budget if cap is None else min(budget, cap * num_prompts),)

  def counts(stats: PromptStats, *, round, rows, key) -> jax.Array:
    del round, rows, key
    return jnp.full(stats.alpha.shape, floor, jnp.int32)

  return rounds, counts


def capped(gain: jax.Array, counts: jax.Array, cap: int | None) -> jax.Array:
  """The gain, -inf for prompts that have `cap` rows."""
  return gain if cap is None else jnp.where(counts < cap, gain, -jnp.inf)
