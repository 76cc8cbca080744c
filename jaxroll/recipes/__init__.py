"""Which compositions are there? One file a paper: (sizes, ...) -> Recipe.

  recipe        selects    allocates              paper
  pilot_commit  random     pilots, then commits   2605.26606
  uniform       random     equal groups           2402.03300 (GRPO)
  vade          vade       equal groups           2511.18902
  vigor         random     rounds that double     2607.22002

A recipe is a NamedTuple: `recipes.vigor(sizes)._replace(select=(select.vade,))`
is another one.
"""

from jaxroll.recipes._pilot_commit import pilot_commit as pilot_commit
from jaxroll.recipes._uniform import uniform as uniform
from jaxroll.recipes._vade import vade as vade
from jaxroll.recipes._vigor import vigor as vigor

__all__ = ["pilot_commit", "uniform", "vade", "vigor"]
