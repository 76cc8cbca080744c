"""What does a step report of itself?"""

import jax
import jax.numpy as jnp

from jaxroll import numerics, types


def measure(draft, raw, rows, num_groups: int) -> dict[str, jax.Array]:
  """Counts and means of a step.

  Args:
    draft: the step's Draft.
    raw: row columns as the verifier left them, [B].
    rows: the same after reward shaping and keep.
    num_groups: P.

  Returns:
    Scalars. Counts and means are of the rows generated in this step, carried
    ones excluded, except `trained_tokens`. A group's rewards are tied if they
    are all equal or fewer than two; carried rows belong to their group.
  """
  new = draft.rollouts.valid & (raw["round"] >= 0)
  scored = raw["valid"] & new
  sampled = jnp.where(new, raw["length"] - raw["given_length"], 0)
  tied = numerics.group_tied(
    raw["reward"], raw["group"], num_groups, raw["valid"]
  )
  rolled = draft.counts > 0
  in_mixed = new & ~tied[raw["group"]]

  def count(x):
    return jnp.sum(x, dtype=jnp.int32)

  def failed(status):
    return count(new & (raw["status"] == status))

  out = {
    "reward": numerics.masked_mean(raw["reward"], scored),
    "zero_variance_share": numerics.masked_mean(
      tied.astype(jnp.float32), rolled
    ),
    "mixed_rollout_share": numerics.masked_mean(
      in_mixed.astype(jnp.float32), new
    ),
    "mean_length": numerics.masked_mean(raw["length"].astype(jnp.float32), new),
    "truncated_share": numerics.masked_mean(
      (~raw["stopped"]).astype(jnp.float32), new
    ),
    "prompts": count(rolled),
    "rollouts": count(new),
    "generated_tokens": count(sampled),
    "trained_tokens": count(rows["mask"]),
    "trained_rollouts": count(jnp.any(rows["mask"], axis=1)),
    "unscorable": failed(types.UNSCORABLE),
    "aborted": failed(types.ABORTED),
    "most_rows_a_prompt": jnp.max(draft.counts),
    "decode_steps": jnp.sum(draft.decode_steps),
    "slot_use": numerics.safe_divide(
      jnp.sum(sampled).astype(jnp.float32),
      draft.slot_steps.astype(jnp.float32),
    ),
  }
  for number in range(draft.decode_steps.shape[0]):
    out[f"decode_steps/round_{number}"] = draft.decode_steps[number]
  return out


def skipped(opt_state) -> jax.Array:
  """Optimiser steps skipped for a non-finite gradient so far: i32[]."""
  return getattr(opt_state, "total_notfinite", jnp.int32(0))
