"""How do cheap pilots and large commits share a step's budget?

  counts_i = commit if prompt i waits with its pilot rows, else pilot

A prompt is first met with `pilot` rollouts. If they show it to be useful, it
waits in the buffer of `replay.pilots` and gets `commit` more in a later step;
its trained group is pilot + commit rows.

Pilot-Commit (2026), arXiv:2605.26606.
"""

import chex
import jax
import jax.numpy as jnp

from jaxroll.types import Allocator, PromptStats


def pilot_commit(*, groups: int, pilot: int = 4, commit: int = 12) -> Allocator:
  """Pilot rows for new prompts, commit rows for those that wait.

  The static plan is the dearest step, in which `groups` prompts wait:

    groups commit + (P - groups) pilot <= budget

  Args:
    groups: most groups that wait in a step, >= 1; that of `replay.pilots`.
    pilot: rollouts of a new prompt, >= 1; that of `replay.pilots`.
    commit: further rollouts of a waiting prompt, >= pilot.

  Returns:
    An `Allocator` of one round. Steps with fewer waiting groups leave
    `commit - pilot` rows unspent for each one missing.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover the dearest step or groups > P.

  Example:
    >>> pilot_commit(groups=2, pilot=2, commit=6).rounds(16, 4)
    (16,)

  Note:
    The paper uses 32 + 96 rollouts for 1.5B parameters and 16 + 48 for 4B to
    14B; the defaults here keep its ratio of 1 to 3 at a group of 16.

  Reference:
    Pilot-Commit, 2026, arXiv:2605.26606.
  """
  if groups < 1:
    raise ValueError(f"pilot_commit: groups={groups} must be >= 1")
  if not 1 <= pilot <= commit:
    raise ValueError(
      f"pilot_commit: pilot={pilot}, commit={commit} must have 1 <= pilot <= "
      "commit"
    )

  def rounds(budget: int, num_prompts: int) -> tuple[int, ...]:
    if groups > num_prompts:
      raise ValueError(
        f"pilot_commit: groups={groups} > P={num_prompts}: lower groups or "
        "select more prompts"
      )
    needed = groups * commit + (num_prompts - groups) * pilot
    if needed > budget:
      raise ValueError(
        f"pilot_commit needs {needed} rows for P={num_prompts}, "
        f"groups={groups}, pilot={pilot}, commit={commit} and has "
        f"budget={budget}: raise the budget or lower groups, pilot or commit"
      )
    return (needed,)

  def counts(
    stats: PromptStats, waiting: jax.Array, *, round, rows, key
  ) -> jax.Array:
    del round, key
    chex.assert_equal_shape([stats.alpha, waiting])
    wanted = jnp.where(waiting, commit, pilot).astype(jnp.int32)
    # Never more than `rows`, even if more than `groups` prompts should wait.
    before = jnp.cumsum(wanted) - wanted
    return jnp.clip(jnp.asarray(rows, jnp.int32) - before, 0, wanted)

  return Allocator(rounds=rounds, counts=counts)
