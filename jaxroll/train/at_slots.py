"""How does a step roll out without rounds? Rows are allocated at the slot.

Where the recipe's allocator has a `gain`, the rounds of a step (generate,
verify, absorb) are one call of `rollout.generate_at_slots`, which scores rows
inside the decode loop and asks the allocator who gets the next.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxroll import recipe, rollout, types
from jaxroll.train import plan


def make_at_slots(
  rules: recipe.Recipe,
  task: types.Task,
  policy: types.Policy,
  sizes: types.Sizes,
  source,
  *,
  rounds: tuple,
  slots: int,
  mesh: jax.sharding.Mesh | None,
) -> Callable:
  """All rollouts of a step: (state, settings, draft) -> Draft.

  Args:
    rules, task, policy, sizes, slots, mesh: as for `train.make_step`.
    source: i32[N], of every prompt of the task.
    rounds: rows of each round, static: one round.

  Returns:
    A function.

  Raises:
    ValueError: where the verifier cannot be traced, there are several rounds,
      or the rule asks for what the loop has not.
  """
  allocator = rules.allocate
  if not task.jittable:
    raise ValueError(
      f"recipe {rules.name!r} allocates at the slot and task {task.name!r} "
      "verifies on the host: rows are scored inside the decode loop; take an "
      "allocator without gain, or a task with a jittable verifier"
    )
  if len(rounds) != 1:
    raise ValueError(
      f"recipe {rules.name!r} allocates at the slot in rounds {rounds}: an "
      "allocator with gain has one round"
    )
  (rows,) = rounds
  for fn in filter(None, (allocator.gain, allocator.decided)):
    if recipe.asks(fn, "key"):
      raise ValueError(
        f"{recipe.label(fn)} asks for key: a rule of the slot draws nothing"
      )

  def ask(fn):
    def answer(columns, tally, counts):
      known = columns | {"tally": tally, "counts": counts}
      return recipe.call(fn, known, round=jnp.int32(0), rows=jnp.int32(rows))

    return None if fn is None else answer

  rule = rollout.SlotRule(
    gain=ask(allocator.gain),
    decided=ask(allocator.decided),
    verify=lambda prompts, rollouts: settled(task.verify(prompts, rollouts)),
  )
  _, carried = plan.carried_rows(rules, sizes)

  def at_slots(state, settings: plan.Settings, draft: plan.Draft) -> plan.Draft:
    key = jax.random.fold_in(state.key, state.step)
    columns = plan.prompt_columns(state, draft, source)
    opening = recipe.call(
      allocator.counts,
      columns | {"tally": draft.tally, "counts": draft.counts},
      round=jnp.int32(0),
      rows=jnp.int32(rows),
      key=jax.random.fold_in(key, plan.ALLOCATE),
    )
    filled = rollout.generate_at_slots(
      policy,
      state.learners["policy"].params,
      rollout.Start(
        prompts=draft.prompts,
        contexts=draft.contexts,
        columns=columns,
        opening=opening,
        used=plan.carried_indices(draft, carried, sizes.prompts),
        tally=draft.tally,
      ),
      rule,
      jax.random.fold_in(state.key, plan.ROWS),
      settings.sampler,
      settings.stops,
      rows=rows,
      born=state.step,
      limit=settings.limit,
      slots=slots,
      max_length=sizes.response_length,
      explore=rules.explore,
      terminate=rules.terminate,
      mesh=mesh,
    )
    placed = rollout.place(
      (draft.rollouts, draft.outcome),
      (filled.rollouts, filled.outcome),
      carried + filled.request.row,
      filled.rollouts.valid,
    )
    return draft._replace(
      counts=filled.counts,
      tally=filled.tally,
      rollouts=placed[0],
      outcome=placed[1],
      decode_steps=draft.decode_steps.at[0].set(filled.info.decode_steps),
      slot_steps=filled.info.slot_steps,
    )

  return at_slots


def settled(outcome: types.Outcome) -> types.Outcome:
  """A verifier that gives no number has failed, whatever it calls it.

  Args:
    outcome: types.Outcome [B].

  Returns:
    The same, rows scored with a number that is not finite made unscorable.
  """
  failed = (outcome.status == types.SCORED) & ~jnp.isfinite(outcome.reward)
  return types.Outcome(
    jnp.where(failed, 0.0, outcome.reward),
    jnp.where(failed, types.UNSCORABLE, outcome.status),
  )
