"""How long is a prompt sampled before its first right answer?

Stages of k rollouts; a prompt leaves after the first stage with a success:

  n_i = j k,  j = the first stage with a success, at most S

At solve rate p that costs k sum_{j<S} (1-p)^(k j) rollouts on average.

AR3PO (2025), arXiv:2509.25808.
"""

import jax
import jax.numpy as jnp

from jaxroll.allocate import _stages, until
from jaxroll.types import Allocator, Tally


def ar3po(*, k: int = 4, stages: int = 4) -> Allocator:
  """k rollouts a stage for the prompts that are still without a success.

  Args:
    k: rollouts of a prompt and stage, >= 1.
    stages: S, most stages, >= 1.

  Returns:
    An `Allocator` of S rounds, fewer where the budget ends before. Prompts
    that are always right cost k and stay without signal, on purpose.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover the first stage.

  Example:
    >>> ar3po(k=2, stages=3).rounds(24, 4)
    (8, 8, 8)

  Note:
    The sizes of the stages are derived here: the source does not state them.
    A fractional reward counts as a success.

  Reference:
    AR3PO, 2025, arXiv:2509.25808.
  """
  if k < 1 or stages < 1:
    raise ValueError(f"ar3po: k={k}, stages={stages} must be >= 1")

  def want(tally: Tally, given: jax.Array) -> jax.Array:
    return jnp.where(stage_mask(tally, given, most=k * stages), k, 0)

  return _stages.stages("ar3po", (k,) * stages, want)


def stage_mask(tally: Tally, given: jax.Array, *, most: int) -> jax.Array:
  """The prompts that go on to another stage.

  Args:
    tally: Tally[P] of the step so far.
    given: i32[P], rollouts so far.
    most: rollouts of a prompt in all stages.

  Returns:
    bool[P], no success yet and stages left.

  Example:
    >>> from jaxroll import posterior
    >>> tally, given = posterior.tally_init(2), jnp.array([12, 16])
    >>> stage_mask(tally, given, most=16).tolist()
    [True, False]
  """
  return ~until.solved(tally) & (given < most)


def expected_cost(rate: jax.Array, *, k: int, stages: int) -> jax.Array:
  """Mean rollouts of a prompt: k sum_{j<S} (1-p)^(k j).

  Args:
    rate: f32[...], p in [0, 1].
    k: rollouts of a stage.
    stages: S.

  Returns:
    f32[...] in [k, S k].

  Example:
    >>> float(expected_cost(jnp.float32(0.0), k=4, stages=4))
    16.0
  """
  return k * sum((1 - rate) ** (k * j) for j in range(stages))
