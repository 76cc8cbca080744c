"""What is a task whose policy's solve rates are known exactly?

Prompt i is a context of one token, whose id is i; a response is one token of
{0, 1}, both of which stop; the reward is that token. The policy is logistic,

  logits = [0, z_i(w)],   P(reward 1 | prompt i) = sigmoid(z_i(w)),

so solve rates, gradients and what an allocation could have found are exact,
and a training step costs a few matrix-vector products.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import types

GRADES = ("easiest", "easy", "medium", "hard", "hardest")


class Population(NamedTuple):
  """Prompts with a policy of known solve rates.

  Attributes:
    task: `types.Task` of N prompts, S = T = 1, V = 2; its sources are skills
      or clusters, its features those that the policy generalises over.
    policy: `types.Policy`; its first parameters are all 0.
    logit: (params, ids i32[...]) -> f32[...], z of these prompts.
    solve_rate: (params) -> f32[N], exact.
  """

  task: types.Task
  policy: types.Policy
  logit: Callable
  solve_rate: Callable


def pair(
  name: str,
  *,
  init: Callable,
  logit: Callable,
  start,
  source,
  feature,
  num_train: int,
) -> Population:
  """A population from the logits of its prompts.

  Args:
    name: of the task.
    init: () -> params.
    logit: (params, ids i32[...]) -> f32[...].
    start: f32[N], logits under the first parameters: they make the grades, 0
      for the fifth of the prompts that is solved most often.
    source: i32[N], skill or cluster of each prompt.
    feature: f32[N, D].
    num_train: the first ids are trained on, the others held out.

  Returns:
    A `Population`.
  """
  num_ids = len(start)
  rank = np.empty(num_ids, np.int64)
  rank[np.argsort(-np.asarray(start), kind="stable")] = np.arange(num_ids)
  ids = np.arange(num_ids, dtype=np.int32)
  task = types.Task(
    name=name,
    data=ids[:, None],
    prompts=_prompts,
    verify=_verify,
    solutions=None,
    decode=lambda tokens: " ".join(str(int(token)) for token in tokens),
    grade=(rank * len(GRADES) // num_ids).astype(np.int32),
    grades=GRADES,
    train_pool=ids[:num_train],
    eval_pool=ids[num_train:],
    vocab_size=2,
    prompt_length=1,
    response_length=1,
    stop_tokens=(0, 1),
    jittable=True,
    source=np.asarray(source, np.int32),
    sources=tuple(str(k) for k in range(int(np.max(source)) + 1)),
    feature=np.asarray(feature, np.float32),
  )
  return Population(
    task=task,
    policy=_policy(init, logit),
    logit=logit,
    solve_rate=lambda params: jax.nn.sigmoid(
      logit(params, jnp.arange(num_ids, dtype=jnp.int32))
    ),
  )


def check_sizes(num_prompts: int, num_eval: int, **others) -> None:
  """Refuses a population without prompts; `others` must be at least 1."""
  for name, value in {"num_prompts": num_prompts, **others}.items():
    if value < 1:
      raise ValueError(f"{name}={value}: must be at least 1")
  if num_eval < 0:
    raise ValueError(f"num_eval={num_eval}: must be at least 0")


def _prompts(data, ids):
  """`Task.prompts`: the token of prompt i is i."""
  ids = jnp.asarray(ids, jnp.int32)
  tokens = jnp.asarray(data)[jnp.maximum(ids, 0)]
  earlier = jnp.tril(ids[:, None] == ids[None, :], k=-1)
  occurrence = jnp.sum(earlier, axis=1, dtype=jnp.int32)
  return (
    types.Prompts(
      id=ids, occurrence=jnp.where(ids >= 0, occurrence, 0), data=tokens
    ),
    types.Contexts(tokens=tokens, length=jnp.ones_like(ids)),
  )


def _verify(prompts, rollouts) -> types.Outcome:
  """`Task.verify`: the reward is the token."""
  del prompts
  right = rollouts.valid & (rollouts.tokens[:, 0] == 1)
  return types.Outcome(
    reward=right.astype(jnp.float32),
    status=jnp.where(
      rollouts.valid, jnp.int32(types.SCORED), jnp.int32(types.ABORTED)
    ),
  )


def _policy(init, logit) -> types.Policy:
  """A model that keeps no keys and values: its hidden state is z."""

  def apply(params, tokens, positions, cache=None, column=None):
    # What stands after the context is read too, and means nothing: no token
    # follows it.
    hidden = logit(params, tokens)[..., None]
    if cache is None:
      return hidden, None
    seen = jax.lax.dynamic_update_slice(cache.positions, positions, (0, column))
    return hidden, cache._replace(positions=seen)

  def unembed(params, hidden):
    del params
    return jnp.concatenate([jnp.zeros_like(hidden), hidden], axis=-1)

  def init_cache(rows, columns):
    empty = jnp.full((rows, columns), types.EMPTY, jnp.int32)
    return types.Cache((), (), empty)

  return types.Policy(lambda key: init(), apply, unembed, init_cache)
