"""What should a person look at? Evaluations, and warnings said once each."""

from absl import logging

# This share of rollouts cut off, for this many steps in a row, is no accident.
_TRUNCATED, _STEPS = 0.9, 3


EVALUATED = (
  "evaluation after step {}: pass@1 {eval/pass@1:.3f} +- {eval/pass@1_se:.3f}, "
  "pass@{eval_k} {eval/pass@k:.3f} +- {eval/pass@k_se:.3f}"
)


class Watch:
  """Reads the metrics of each step and warns where something has begun.

  Args:
    skipped: optimiser steps that an earlier part of the run has skipped.

  Example:
    >>> watch = Watch()
    >>> watch(1, {"skipped_nonfinite": 0, "truncated_share": 0.1,
    ...           "rollouts": 8})
  """

  def __init__(self, skipped: int = 0):
    self._skipped = skipped
    self._truncated = 0  # steps in a row

  def __call__(self, step: int, values) -> None:
    """Warns of skipped updates when they grow, of truncation once a streak."""
    skipped = int(values["skipped_nonfinite"])
    if skipped > self._skipped:
      logging.warning(
        "step %d: %d optimiser steps were skipped for a non-finite gradient so "
        "far: lower learning_rate if this goes on",
        step,
        skipped,
      )
    self._skipped = skipped
    if not values["rollouts"]:
      return
    cut = values["truncated_share"] >= _TRUNCATED
    self._truncated = self._truncated + 1 if cut else 0
    if self._truncated == _STEPS:
      logging.warning(
        "STEP %d: %.0f%% OF THE ROLLOUTS WERE CUT OFF AT THEIR LIMIT, and at "
        "least %.0f%% in the %d steps before: they can hardly earn a reward. "
        "Raise the task's response_length, or warm_start.steps so that the "
        "policy learns to stop",
        step,
        100 * values["truncated_share"],
        100 * _TRUNCATED,
        _STEPS - 1,
      )
