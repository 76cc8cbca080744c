"""CoBA-RL: rollouts by a value of the solve rate that follows what fails.

arXiv:2602.03048.
"""

import functools

from jaxroll import allocate, posterior
from jaxroll.recipe import Recipe
from jaxroll.types import Sizes


def coba_rl(
  sizes: Sizes,
  *,
  low: int = 2,
  high: int | None = None,
  tau: float | None = None,
  kappa: float = 4.0,
  average: float = 0.9,
) -> Recipe:
  """The recipe of CoBA-RL.

  Args:
    sizes: the run's: P prompts share `sizes.rows` rollouts a step.
    low: least rollouts of a prompt.
    high: most rollouts of a prompt; None takes eight mean groups, the paper's
      128 at 16.
    tau: see `allocate.coba`; None takes half a mean group.
    kappa: see `allocate.coba`.
    average: kept of a prompt's old counts when it is rolled out, in [0, 1]: how
      far back the prompts' rates reach, and with them the global failure rate,
      which the paper averages over steps instead.

  Returns:
    A `Recipe`.

  Note:
    low, tau, kappa and average are derived here: the source does not state
    them.
  """
  group = max(1, sizes.rows // sizes.prompts)
  plan = allocate.coba(
    low=low,
    high=max(low + 1, 8 * group) if high is None else high,
    tau=group / 2 if tau is None else tau,
    kappa=kappa,
  )
  return Recipe(
    name="coba_rl",
    allocate=plan,
    observe=functools.partial(posterior.observe, local=average),
  )
