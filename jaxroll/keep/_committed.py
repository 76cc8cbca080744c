"""Which groups are complete enough to be trained on?

Under Pilot-Commit a prompt's first few rows, the pilots, only decide whether
the prompt deserves the rest of its rows, which are sampled at a later step.
Groups are trained on when both parts are there:

  keep_i  iff  the group of i holds rows carried over from an earlier step

Paper: "Pilot-Commit", 2026, arXiv:2605.26606.
"""

import chex


def committed(group: chex.Array, waiting: chex.Array) -> chex.Array:
  """Keeps the rows of groups that hold carried rows.

  `keep_i = waiting[group_i]`

  Args:
    group: i32[B], prompt of each row, `0 <= group < P`.
    waiting: bool[P], prompts whose group holds rows of an earlier step.

  Returns:
    bool[B]: True for the carried rows and for the new ones that join them;
    False for this step's pilots.

  Example:
    >>> import jax.numpy as jnp
    >>> group, waiting = jnp.array([0, 0, 1]), jnp.array([True, False])
    >>> committed(group, waiting).tolist()
    [True, True, False]

  Reference:
    Pilot-Commit 2026, arXiv:2605.26606: training starts from the collected
    groups of pilot and commit rows.
  """
  chex.assert_rank([group, waiting], 1)
  chex.assert_type([group, waiting], [int, bool])
  return waiting[group]
