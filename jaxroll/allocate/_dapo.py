"""What is drawn in place of a group without a gradient?

DAPO's dynamic sampling goes on drawing groups of n rollouts until the batch
holds mixed groups only:

  more_i = n  if min r = max r over the rows of prompt i so far,  else 0

DAPO: Yu et al. (2025), arXiv:2503.14476.
"""

import jax
import jax.numpy as jnp

from jaxroll.allocate import until
from jaxroll.allocate._stages import stages
from jaxroll.types import Allocator, Tally


def dapo(*, n: int = 16, refills: int = 9) -> Allocator:
  """Groups of n, drawn again for the prompts whose rewards are all equal.

  Args:
    n: rollouts of a group, >= 1.
    refills: most further draws, >= 0; ten draws in all are the limit that the
      authors' code generates a batch with.

  Returns:
    An `Allocator` of 1 + refills rounds, fewer where the budget ends before.

  Raises:
    ValueError: where a number is out of range; from `rounds`, where the
      budget does not cover the first groups and, where there are refills, one
      row more.

  Example:
    >>> dapo(n=4, refills=1).rounds(32, 4)
    (16, 16)

  Note:
    The paper replaces a flat group by one of another prompt and discards its
    rows. A step's prompts are fixed here: the refill draws the same prompt
    again, and its earlier rows stay in the group. A prompt whose rows are all
    right gets a refill like one whose rows are all wrong. Groups that stay
    flat are removed by `keep.mixed`.

  Reference:
    Yu et al., 2025, arXiv:2503.14476, section 3.2 (dynamic sampling, eq. 11).
  """
  if n < 1 or refills < 0:
    raise ValueError(f"dapo: n={n} must be >= 1 and refills={refills} >= 0")

  def want(tally: Tally, given: jax.Array) -> jax.Array:
    del given
    return jnp.where(until.mixed(tally), 0, n)

  return stages("dapo", (n,) * (1 + refills), want)
