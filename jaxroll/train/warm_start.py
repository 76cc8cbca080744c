"""What does a policy know before RL? Supervised steps on a task's solutions."""

import jax
import jax.numpy as jnp
import optax

from jaxroll import types
from jaxroll.train import optimiser as optimiser_lib
from jaxroll.train import scoring


def warm_start(
  policy: types.Policy,
  task: types.Task,
  optimiser: optax.GradientTransformation,
  *,
  rows: int,
  steps: int,
):
  """A function that takes supervised steps, jittable as a whole.

  Each step draws prompts with replacement from the training pool and lowers
  the mean negative log-prob of their solutions' tokens, stop token included.

  Args:
    policy: types.Policy.
    task: with `solutions`.
    optimiser: its state belongs to the learner given to the result.
    rows: prompts a step.
    steps: steps a call.

  Returns:
    (learner, data, pool i32[M], key) -> learner, loss f32[steps].

  Raises:
    ValueError: for a task without solutions.
  """
  if task.solutions is None:
    raise ValueError(
      f"task {task.name!r} has no solutions to learn from: set the number of "
      "warm-start steps to 0"
    )

  def loss(params, contexts, tokens, length):
    logp, _ = scoring.token_logps(
      policy,
      params,
      contexts.tokens,
      contexts.length,
      tokens,
      length,
      jnp.float32(1),
    )
    return -jnp.sum(logp) / jnp.sum(length).astype(jnp.float32)

  def run(learner: types.Learner, data, pool, key):
    def step(learner, number):
      draw, choose = jax.random.split(jax.random.fold_in(key, number))
      ids = jax.random.choice(draw, pool, (rows,))
      _, contexts = task.prompts(data, ids)
      tokens, length = task.solutions(data, ids, choose)
      value, grads = jax.value_and_grad(loss)(
        learner.params, contexts, tokens, length
      )
      return optimiser_lib.apply_gradients(optimiser, learner, grads), value

    return jax.lax.scan(step, learner, jnp.arange(steps))

  return run
