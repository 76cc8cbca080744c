"""Was a row's answer complete when it was scored?

A row cut off at its limit is scored as wrong although its reasoning may have
been sound. DAPO's overlong filtering removes such rows from the loss:

  keep_i  iff  row i ended by a stop rule

Paper: Yu et al. 2025, "DAPO: An Open-Source LLM Reinforcement Learning System
at Scale", arXiv:2503.14476.
"""

import chex


def stopped(stopped: chex.Array) -> chex.Array:
  """Keeps the rows that were not cut off.

  `keep_i = stopped_i`

  Args:
    stopped: bool[B], the row ended by a stop token, sequence or hook, not by
      its limit.

  Returns:
    bool[B], the same.

  Note:
    The paper masks the loss of truncated rows. A keep function also removes
    them from the baseline if the recipe puts it before the advantage.

  Example:
    >>> import jax.numpy as jnp
    >>> stopped(jnp.array([True, False])).tolist()
    [True, False]

  Reference:
    Yu et al. 2025, arXiv:2503.14476, section 3.4 (overlong filtering).
  """
  chex.assert_rank(stopped, 1)
  chex.assert_type(stopped, bool)
  return stopped
