"""How every keep function is called, and what its paper denies it."""

import jax

from tests.contracts import Case

_WHOLE_STEP = "rows of all prompts compete"

_DRAWN = "the rows that stay are drawn by their place in the batch"

CASES = {
  # One of four rows is right in the first group.
  "aero": Case(
    hyper={"key": jax.random.key(1), "success": 0.12},
    required=("key",),
    exceptions={"check_row_order": _DRAWN},
  ),
  "balanced": Case(hyper={"size": 2, "success": 0.0}),
  # Its own test puts the state that it starts with through the contract.
  "cbs": Case(),
  "difficulty_band": Case(),
  "efficient": Case(hyper={"k": 2}),
  "max_variance": Case(hyper={"n": 2}),
  "mean_between": Case(hyper={"low": 0.0, "high": 0.5}),
  "ready": Case(hyper={"success": 0.0}),
  "shortest": Case(hyper={"k": 2}),
  "std_above": Case(hyper={"threshold": 0.0}),
  "thin_flat": Case(
    hyper={"key": jax.random.key(0), "n": 2},
    required=("key",),
    exceptions={"check_row_order": _DRAWN},
  ),
  "top_advantage": Case(exceptions={"check_groups_independent": _WHOLE_STEP}),
  "committed": Case(),
  "mixed": Case(),
  "stopped": Case(),
}
