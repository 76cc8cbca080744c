"""What did a step's groups say of each prompt of the task?"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.types import SCORED


class Seen(NamedTuple):
  """A step's groups, each array [N] by prompt of the task.

  Attributes:
    rolled: bool, got scored rows. mean: f32, of their rewards.
    tied: bool, rolled and its rewards were all equal.
  """

  rolled: jax.Array
  mean: jax.Array
  tied: jax.Array


def seen(num_ids, ids, group, status, reward) -> Seen:
  """Outcomes of a step by prompt of the task.

  Groups that a keep function removed count too: that a prompt's rewards were
  all equal is what selectors learn from. A group of one has no variance and
  is tied.

  Args:
    num_ids: N, static.
    ids: i32[P], -1 empty.
    group: i32[B].
    status: i32[B]; rows that are not SCORED are unread.
    reward: f32[B].

  Returns:
    `Seen`.
  """
  prompt, scored = prompts(ids, group), status == SCORED
  rows = (prompt, num_ids, scored)
  rolled = numerics.group_count(*rows) > 0
  mean = numerics.group_mean(reward, *rows)
  return Seen(rolled, mean, rolled & numerics.group_tied(reward, *rows))


def prompts(ids, group):
  """i32[B], each row's prompt of the task; -1 for a row without one."""
  inside = (group >= 0) & (group < ids.shape[0])
  return jnp.where(inside, ids[jnp.clip(group, 0, ids.shape[0] - 1)], -1)


def check_share(name, value, low=0.0, high=1.0):
  """Refuses a number outside [low, high]."""
  if not low <= value <= high:
    raise ValueError(
      f"{name}={value} must lie in [{low}, {high}]: choose one inside"
    )
