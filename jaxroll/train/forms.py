"""How is a step run? As one function, or around a verifier on the host.

With a jittable verifier the four functions of a `Step` are one jitted function
(`fused`), otherwise the same four are jitted one by one (`hosted`).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import parallel, types
from jaxroll.train.step import Settings, Step


def fused(step: Step, task: types.Task) -> Callable:
  """The whole step as one function: (state, data, settings) -> state, Output.

  Raises:
    ValueError: where the task's verifier cannot be traced.
  """
  if not task.jittable:
    raise ValueError(
      f"task {task.name!r} verifies on the host: use train.hosted"
    )

  def run(state: types.TrainState, data, settings: Settings):
    def one_round(draft, number):
      request, rows, draft = step.generate(state, settings, draft, number)
      outcome = task.verify(draft.prompts, rows)
      return step.absorb(draft, request, rows, outcome), None

    draft = step.begin(state, data)
    if step.at_slots is not None:
      return step.learn(state, settings, step.at_slots(state, settings, draft))
    numbers = jnp.arange(len(step.rounds), dtype=jnp.int32)
    draft, _ = jax.lax.scan(one_round, draft, numbers)
    return step.learn(state, settings, draft)

  return run


def hosted(step: Step, task: types.Task) -> Callable:
  """The same step around a verifier on the host; jits its own parts.

  With several processes each verifies its own part of the rows.

  Raises:
    ValueError: where rows are allocated at the slot.
  """
  if step.at_slots is not None:
    raise ValueError(
      "the recipe allocates at the slot, inside the decode loop: use "
      "train.fused, or an allocator without gain"
    )
  begin, generate = jax.jit(step.begin), jax.jit(step.generate)
  absorb, learn = jax.jit(step.absorb), jax.jit(step.learn)

  def run(state: types.TrainState, data, settings: Settings):
    draft = begin(state, data)
    for number in range(len(step.rounds)):
      request, rows, draft = generate(state, settings, draft, np.int32(number))
      outcome = parallel.own_rows(
        task.verify, *parallel.to_host((draft.prompts, rows))
      )
      draft = absorb(draft, request, rows, outcome)
    return learn(state, settings, draft)

  return run
