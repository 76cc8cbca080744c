"""How every objective is called, and what its paper denies it."""

from tests.contracts import Case

CASES = {
  "cispo": Case(),
  "gspo": Case(),
  "kl": Case(
    exceptions={
      "check_on_policy_gradient": "a divergence has no advantage",
    }
  ),
  "ppo_clip": Case(hyper={"dual_clip": 3.0}),
  "reinforce": Case(),
}

AGGREGATES = {
  "constant_length": Case(
    hyper={"limit": 5},
    required=("limit",),
    exceptions={"check_mean": "divides by the limit, not by the length"},
  ),
  "prompt_mean": Case(),
  "sequence_mean": Case(),
  "token_mean": Case(),
}
