"""What does a policy solve? k samples for each of some prompts."""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import parallel, rollout, types


class Samples(NamedTuple):
  """k rows for each of N prompts; row j of prompt i is i * k + j.

  Attributes:
    correct: bool[N, k], reward at least 1. scored: bool[N, k].
    prompts, contexts: of the N. rollouts, outcome: of the N k rows.
  """

  correct: chex.Array
  scored: chex.Array
  prompts: types.Prompts
  contexts: types.Contexts
  rollouts: types.Rollouts
  outcome: types.Outcome


def held_out(
  policy: types.Policy,
  task: types.Task,
  ids,
  *,
  k: int,
  slots: int,
  max_length: int,
  mesh: jax.sharding.Mesh | None = None,
) -> Callable:
  """A function that samples k rows for each prompt and verifies them.

  Args:
    policy: types.Policy.
    task: types.Task; a host verifier is called between jitted parts.
    ids: i32[N], prompts of the task.
    k: rows a prompt, >= 1.
    slots: rows decoded at once.
    max_length: T.
    mesh: None for one device.

  Returns:
    (params, data, sampler, stops, key) -> `Samples`. The same key draws the
    same noise for the same prompt, so two policies are compared in pairs.

  Raises:
    ValueError: for no prompts or k < 1.
  """
  ids = np.asarray(ids, np.int32)
  if not len(ids) or k < 1:
    raise ValueError(f"{len(ids)} prompts, k={k}: both must be at least 1")

  def generate(params, data, sampler, stops, key):
    prompts, contexts = task.prompts(data, jnp.asarray(ids))
    number = len(ids)
    request = rollout.fill(
      jnp.full((number,), k, jnp.int32),
      jnp.zeros((number,), jnp.int32),
      rows=number * k,
      step=0,
      limit=max_length,
    )
    keys = rollout.row_keys(
      key,
      request.born,
      prompts.id[request.group],
      prompts.occurrence[request.group],
      request.index,
    )
    rows, _ = rollout.generate(
      policy,
      params,
      contexts,
      request,
      keys,
      sampler,
      stops,
      slots=slots,
      max_length=max_length,
      mesh=mesh,
    )
    return prompts, contexts, rows

  def read(prompts, contexts, rows, outcome):
    scored = (outcome.status == types.SCORED).reshape(-1, k)
    correct = (outcome.reward >= 1).reshape(-1, k) & scored
    return Samples(correct, scored, prompts, contexts, rows, outcome)

  def fused(params, data, sampler, stops, key):
    prompts, contexts, rows = generate(params, data, sampler, stops, key)
    return read(prompts, contexts, rows, task.verify(prompts, rows))

  if task.jittable:
    return jax.jit(fused)
  generate = jax.jit(generate)

  def hosted(params, data, sampler, stops, key):
    out = parallel.to_host(generate(params, data, sampler, stops, key))
    prompts, contexts, rows = out
    outcome = parallel.own_rows(task.verify, prompts, rows)
    return read(prompts, contexts, rows, outcome)

  return hosted
