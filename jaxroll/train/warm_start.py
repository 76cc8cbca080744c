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
  wrong: float = 0.0,
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
    wrong: share of rows, in [0, 1), that learn another prompt's solution: the
      policy then knows answers but gives them unreliably, as one pretrained
      on text of mixed quality does.

  Returns:
    (learner, data, pool i32[M], key) -> learner, loss f32[steps].

  Raises:
    ValueError: for a task without solutions; for a share out of its range.
  """
  if not 0 <= wrong < 1:
    raise ValueError(f"wrong={wrong}: a share in [0, 1)")
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
      draw, choose, mix = jax.random.split(jax.random.fold_in(key, number), 3)
      ids = jax.random.choice(draw, pool, (rows,))
      _, contexts = task.prompts(data, ids)
      swapped = jax.random.uniform(mix, (rows,)) < wrong
      solved = jnp.where(swapped, jnp.roll(ids, 1), ids)
      tokens, length = task.solutions(data, solved, choose)
      value, grads = jax.value_and_grad(loss)(
        learner.params, contexts, tokens, length
      )
      return optimiser_lib.apply_gradients(optimiser, learner, grads), value

    return jax.lax.scan(step, learner, jnp.arange(steps))

  return run
