"""How every advantage estimator is called, and what its paper denies it."""

from tests.contracts import Case

_WHOLE_BATCH = "the baseline is the whole batch's: only its ties count"

CASES = {
  "dr_grpo": Case(),
  "grpo": Case(),
  "reinforce": Case(
    exceptions={
      "check_groups_independent": _WHOLE_BATCH,
      "check_no_signal": _WHOLE_BATCH,
    }
  ),
  "rloo": Case(),
}
