"""What is minimised, token by token?

An objective turns the learner's log-probs into a loss for every token; how
tokens are averaged is named apart from it, by `objective.aggregate`:

  (logp f32[B, T], [anchor,] adv f32[B] or [B, T], [low, high,] [weight,]
   mask bool[B, T]) -> loss f32[B, T], aux: dict of f32[B, T]

Letters: B rows, T tokens after the context, A = adv, w = weight,
ratio = exp(logp - anchor), sg = stop_gradient.

Invariants, tested for every function of `__all__`:

  - where logp equals anchor, the gradient of the loss is that of
    -w A logp, the policy gradient (not so for `kl`, which has no advantage);
  - a masked token's loss and gradient are exactly 0, whatever its log-probs;
  - advantages, anchor, bounds and weight get no gradient;
  - a row's loss depends on that row alone; computed in float32; the log ratio
    is cut off at +-20, so that no exponential overflows.

| function    | loss of a token                        | paper                |
|-------------|----------------------------------------|----------------------|
| `cispo`     | -sg(w clip(ratio)) A logp              | MiniMax 2025         |
| `gspo`      | ppo_clip with the row's mean log ratio | Zheng et al. 2025    |
| `kl`        | k2 or k3 of the reference              | Shao et al. 2024     |
| `ppo_clip`  | -w min(ratio A, clip(ratio) A)         | Schulman et al. 2017 |
| `reinforce` | -w A logp                              | Williams 1992        |

`aux["clipped"]` is 1 where a bound acts on a token and 0 elsewhere.
"""

from jaxroll.objective import aggregate as aggregate  # tools, not methods
from jaxroll.objective._cispo import cispo
from jaxroll.objective._gspo import gspo
from jaxroll.objective._kl import kl
from jaxroll.objective._ppo_clip import ppo_clip
from jaxroll.objective._reinforce import reinforce

__all__ = ["cispo", "gspo", "kl", "ppo_clip", "reinforce"]
