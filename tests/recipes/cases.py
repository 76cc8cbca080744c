"""One row for each recipe: how it is composed at 8 prompts."""

from collections.abc import Callable
from typing import NamedTuple

from jaxroll import recipes, select
from jaxroll.types import Sizes


class Case(NamedTuple):
  """A recipe.

  Attributes:
    make: (sizes) -> Recipe with defaults.
    rows: the least budget of 8 prompts that it runs on.
    rounds: its plan of that budget.
    changes: fields of the recipe that are not the baseline's.
    select: its last selection, or None for one made by a factory.
    carried: rows of earlier steps that a step may hold.
  """

  make: Callable
  rows: int
  rounds: tuple
  changes: tuple = ()
  select: Callable | None = select.random
  carried: int = 0

  def sizes(self, rows=None) -> Sizes:
    return Sizes(40, 8, rows or self.rows, 5, 6)


CASES = {
  # Every prompt has 4 rows: 2 and 2 more, or 4 times 1.
  "aero": Case(
    recipes.aero,
    32,
    (16, 16),
    changes=("allocate", "keep", "advantage", "keep_loss"),
  ),
  "ar3po": Case(recipes.ar3po, 32, (8, 8, 8, 8), changes=("allocate",)),
  "bar": Case(recipes.bar, 32, (8, 8, 8, 8), changes=("allocate", "keep")),
  "bell_weight": Case(recipes.bell_weight, 8, (8,), changes=("advantage",)),
  "cbs": Case(recipes.cbs, 8, (8,), changes=("keep_loss",)),
  "coba_rl": Case(recipes.coba_rl, 16, (16,), changes=("allocate", "observe")),
  "dapo": Case(recipes.dapo, 32, (16, 16), changes=("allocate", "keep")),
  "dars_et": Case(
    recipes.dars_et, 32, (16, 16), changes=("allocate", "keep", "advantage")
  ),
  "dars_hw": Case(
    recipes.dars_hw, 32, (16, 16), changes=("allocate", "keep", "advantage")
  ),
  "dart": Case(
    recipes.dart, 16, (16,), changes=("allocate", "observe", "trust")
  ),
  "difficulty_band": Case(
    recipes.difficulty_band, 8, (8,), changes=("keep_loss",)
  ),
  "dynamic_sampling": Case(
    recipes.dynamic_sampling, 8, (8,), changes=("keep",)
  ),
  "e3": Case(recipes.e3, 16, (16,), changes=("allocate",)),
  "elimination": Case(
    recipes.elimination, 32, (8, 8, 8, 8), changes=("allocate",)
  ),
  "far": Case(recipes.far, 32, (16, 8, 8), changes=("allocate", "keep")),
  "gfpo": Case(recipes.gfpo, 8, (8,), changes=("keep",)),
  "neyman": Case(recipes.neyman, 16, (16,), changes=("allocate",)),
  # 8 prompts x 4 pilots, one of them committed: 12 more instead of 4.
  "pilot_commit": Case(
    recipes.pilot_commit,
    40,
    (40,),
    changes=("allocate", "keep", "replay"),
    carried=4,
  ),
  "pods": Case(recipes.pods, 8, (8,), changes=("keep",)),
  "roll": Case(recipes.roll, 8, (8,), changes=("keep",)),
  # Two opening rows for each of 8 prompts.
  "slot_elimination": Case(
    recipes.slot_elimination, 16, (16,), changes=("allocate",)
  ),
  "slot_mixed": Case(recipes.slot_mixed, 16, (16,), changes=("allocate",)),
  "slot_variance": Case(
    recipes.slot_variance, 16, (16,), changes=("allocate",)
  ),
  "softmax_weight": Case(
    recipes.softmax_weight, 8, (8,), changes=("advantage",)
  ),
  "thompson": Case(recipes.thompson, 16, (16,), changes=("allocate",)),
  "top_advantage": Case(recipes.top_advantage, 8, (8,), changes=("keep_loss",)),
  # Four of 8 prompts with 2 rollouts each, then as many more.
  "trace": Case(recipes.trace, 16, (8, 8), changes=("allocate",)),
  "uniform": Case(recipes.uniform, 8, (8,)),
  "v05": Case(recipes.v05, 32, (32,), changes=("allocate", "advantage")),
  "vade": Case(
    recipes.vade, 8, (8,), changes=("select", "observe"), select=select.vade
  ),
  # m0 = 1 in rounds of 8 x 1, 4 x 2, 2 x 4, 1 x 8.
  "vigor": Case(recipes.vigor, 32, (8, 8, 8, 8), changes=("allocate",)),
  "xrpo": Case(recipes.xrpo, 32, (32,), changes=("allocate", "advantage")),
  "apriel": Case(recipes.apriel, 8, (8,), changes=("mixture",)),
  "d3_mopd": Case(recipes.d3_mopd, 8, (8,), changes=("mixture",)),
  "dots": Case(
    recipes.dots, 8, (8,), changes=("select", "observe"), select=None
  ),
  "epsilon_greedy": Case(
    recipes.epsilon_greedy, 8, (8,), changes=("select",), select=None
  ),
  "greso": Case(
    recipes.greso, 8, (8,), changes=("select", "keep"), select=None
  ),
  "hive": Case(
    recipes.hive, 8, (8,), changes=("select",), select=select.hive_check
  ),
  "lineage": Case(recipes.lineage, 8, (8,), changes=("mixture",)),
  "moderate": Case(recipes.moderate, 8, (8,), changes=("select",), select=None),
  "reward_gap": Case(recipes.reward_gap, 8, (8,), changes=("mixture",)),
  "strata": Case(recipes.strata, 8, (8,), changes=("mixture",)),
  "tablegpt": Case(
    recipes.tablegpt,
    8,
    (8,),
    changes=("select", "trust", "losses"),
    select=None,
  ),
  "thompson_select": Case(
    recipes.thompson_select, 8, (8,), changes=("select",), select=None
  ),
  "tscl": Case(recipes.tscl, 8, (8,), changes=("mixture",)),
  "ucb": Case(recipes.ucb, 8, (8,), changes=("select",), select=None),
  "ucb_mixture": Case(recipes.ucb_mixture, 8, (8,), changes=("mixture",)),
}
