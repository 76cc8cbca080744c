"""How is a group made of equally many correct and wrong rollouts?

Balanced Adaptive Rollout draws until both kinds can fill half a group, then
keeps the earliest of each; what one kind lacks the other one fills:

  right_p = min(n+_p, max(floor(G/2), G - n-_p))    correct rows kept
  wrong_p = min(n-_p, max(ceil(G/2), G - n+_p))     wrong rows kept

with n+, n- the group's correct and wrong rows. A group without either kind is
skipped. The advantage is that of the kept group alone: +-1 if it is balanced.

Paper: Orchard, 2026, arXiv:2605.15040.
"""

import chex
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.keep._rows import place


def balanced(
  reward: chex.Array,
  group: chex.Array,
  index: chex.Array,
  *,
  num_groups: int,
  valid: chex.Array,
  size: int = 8,
  success: float = 1.0,
) -> chex.Array:
  """Keeps at most `size` rows of a group, half correct and half wrong.

  Args:
    reward: f32[B], any finite value where valid, any value at all elsewhere.
    group: i32[B], prompt of each row, `0 <= group < num_groups`.
    index: i32[B], place within the group, the order in which rows were drawn.
    num_groups: P, static.
    valid: bool[B], rows that are scored; the others are never read or kept.
    size: G, rows of a full group, >= 2; of an odd one floor(G/2) are correct.
    success: the least reward of a correct row.

  Returns:
    bool[B]: of each kind the rows of lowest index; nothing of a group in which
    one kind is missing.

  Raises:
    ValueError: if `size` is less than 2.

  Note:
    Belongs in `keep`, so that the baseline is that of the kept rows: the paper
    standardises within the balanced group. A group's weight then no longer
    falls with p (1 - p), and hard prompts gain. Group size, the level
    of success and the filling rule are derived here: the source names the
    balance, not its numbers.

  Example:
    >>> reward = jnp.array([1.0, 1.0, 1.0, 0.0])
    >>> balanced(reward, jnp.zeros(4, int), jnp.arange(4), num_groups=1,
    ...          valid=jnp.ones(4, bool), size=2).tolist()
    [True, False, False, True]

  Reference:
    Orchard 2026, arXiv:2605.15040 (Balanced Adaptive Rollout).
  """
  if size < 2:
    raise ValueError(
      f"size={size} must be >= 2: a group needs a correct and a wrong row"
    )
  chex.assert_rank([reward, group, index, valid], 1)
  chex.assert_equal_shape([reward, group, index, valid])
  correct = jnp.where(valid, reward, 0).astype(jnp.float32) >= success
  rights = numerics.group_count(group, num_groups, valid & correct)
  wrongs = numerics.group_count(group, num_groups, valid & ~correct)
  right = jnp.minimum(rights, jnp.maximum(size // 2, size - wrongs))
  wrong = jnp.minimum(wrongs, jnp.maximum(size - size // 2, size - rights))
  first_right = place(group, num_groups, valid & correct, -index)
  first_wrong = place(group, num_groups, valid & ~correct, -index)
  among = jnp.where(
    correct, first_right < right[group], first_wrong < wrong[group]
  )
  both = (rights > 0) & (wrongs > 0)
  return valid & among & both[group]
