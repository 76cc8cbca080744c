"""How every advantage estimator is called, and what its paper denies it."""

from jaxroll import posterior
from tests.contracts import GROUPS, Case

_WHOLE_BATCH = "the baseline is the whole batch's: only its ties count"

_MEAN_ONE = "the weights of the whole step have a mean of 1"
_TRANSFORM = "a transform scales what it is given, whatever the rewards"
# Every prompt was predicted alike, so that renaming groups renames nothing.
_STATS = posterior.init(GROUPS, prior=(2.0, 8.0))

CASES = {
  "bell_weight": Case(
    exceptions={
      "check_groups_independent": _MEAN_ONE,
      "check_no_signal": _TRANSFORM,
      "check_shift": "rewards are read as pass rates, not up to a constant",
    }
  ),
  "dr_grpo": Case(),
  "grpo": Case(),
  "posterior_baseline": Case(
    exceptions={
      "check_no_signal": "made for tied groups: they get an advantage",
      "check_shift": "rewards are successes, not up to a constant",
    }
  ),
  "reinforce": Case(
    exceptions={
      "check_groups_independent": _WHOLE_BATCH,
      "check_no_signal": _WHOLE_BATCH,
    }
  ),
  "rloo": Case(),
  "sharpen": Case(
    exceptions={
      "check_no_signal": "transforms what an estimator gave",
      "check_shift": "rewards say which rows are right",
    }
  ),
  "shrinkage": Case(
    hyper={"stats": _STATS},
    required=("stats",),
    exceptions={
      "check_no_signal": "tied groups are compared with their prediction",
      "check_shift": "rewards are successes, not up to a constant",
    },
  ),
  "softmax_weight": Case(
    exceptions={
      "check_groups_independent": _MEAN_ONE,
      "check_no_signal": _TRANSFORM,
    }
  ),
}
