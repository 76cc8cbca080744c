"""What do the papers say of their methods?

One line a recipe: what its paper reports against GRPO-like training, in the
paper's own setting. A recipe without a row has no claim that a comparison at
equal cost could meet.
"""

from typing import NamedTuple


class Claim(NamedTuple):
  """A paper's claim: one line, and its arXiv id."""

  text: str
  paper: str


NONE = Claim("-", "-")

# DataFlex-RL compared such policies itself, and found nothing.
_NULL = Claim("does not separate from uniform at 95 %", "2609.06107")
_REINFORCE_ADA = Claim(
  "faster convergence and a better end than GRPO", "2510.04996"
)

CLAIMS = {
  "aero": Claim(
    "same quality with 48 % less training compute than GRPO", "2602.14338"
  ),
  "apriel": Claim(
    "better than the base with 30-50 % shorter traces", "2604.02007"
  ),
  "ar3po": Claim(
    "better than GRPO; DAPO's quality with up to 4.2x fewer responses",
    "2509.25808",
  ),
  "bar": Claim("more groups with a signal at equal draws", "2605.15040"),
  "bell_weight": _NULL,
  "cbs": Claim("better than training on all rollouts", "2602.08499"),
  "coba_rl": Claim("46.8 against GRPO's 42.2 at equal budget", "2602.03048"),
  "d3_mopd": Claim(
    "closes 97 % of the gap to the teachers, a fixed mixture 63 %",
    "2608.24987",
  ),
  "dapo": Claim("better than GRPO in half of the steps", "2503.14476"),
  "dars_et": Claim("pass@128 above GRPO at equal budget", "2508.13755"),
  "dars_hw": Claim("pass@128 82.1 against GRPO's 79.6", "2508.13755"),
  "dart": Claim(
    "better by 7 points than the open state of the art, fewer rollouts",
    "2509.23866",
  ),
  "difficulty_band": _NULL,
  "dots": Claim("23-62 % less training time to GRPO's quality", "2506.05316"),
  "dynamic_sampling": Claim(
    "GRPO's accuracy in fewer steps, generation not counted", "2503.14476"
  ),
  "e3": Claim("better pass@1 and pass@k than GRPO", "2505.18573"),
  "elimination": _REINFORCE_ADA,
  "far": Claim("more groups with contrast for the same wait", "2606.31504"),
  "gfpo": Claim("GRPO's accuracy with much shorter responses", "2508.09726"),
  "greso": Claim(
    "the same accuracy with up to 2.4x faster rollouts", "2506.02177"
  ),
  "hive": Claim(
    "dynamic sampling's accuracy with far fewer rollouts", "2603.25184"
  ),
  "lineage": Claim(
    "more partially solved groups than a random order", "2609.04128"
  ),
  "pilot_commit": Claim(
    "1.5-1.9x fewer rollouts to target than GRPO", "2605.26606"
  ),
  "pods": Claim(
    "better than GRPO at equal time, training on few of many rollouts",
    "2504.13818",
  ),
  "reward_gap": _NULL,
  "slot_elimination": _REINFORCE_ADA,
  "softmax_weight": _NULL,
  "tablegpt": Claim("a 20/60/20 pool reaches the target sooner", "2512.20312"),
  "top_advantage": _NULL,
  "trace": Claim(
    "+2.8 points over baselines at equal sampling cost", "2606.11119"
  ),
  "ucb_mixture": _NULL,
  "uniform": Claim("the baseline: equal groups", "2402.03300"),
  "v05": Claim(
    "better than GRPO and DAPO of 16 rollouts with 4 to start", "2603.10848"
  ),
  "vade": Claim("better sample efficiency than GRPO", "2511.18902"),
  "vigor": Claim(
    "up to 2.3x fewer rollouts to target; better at equal budget",
    "2607.22002",
  ),
  "xrpo": Claim(
    "up to +4 % pass@1, convergence up to 2.7x faster", "2510.06672"
  ),
}
