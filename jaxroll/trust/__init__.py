"""How far may the policy move from where its rows were sampled?

A trust function fixes, once for the whole batch and before the first inner
step, what the objective compares the policy with:

  (old_logp f32[B, T], ..., mask bool[B, T]) -> types.Trust, f32[B, T] each

  anchor   the log-prob below the ratio exp(logp - anchor)
  low      lower bound of the ratio, in [0, 1]
  high     upper bound of the ratio, in [1, inf]
  weight   importance weight, multiplies the loss (never its denominator)

A recipe holds a chain of them, merged by `merge`: the first one's anchor, the
tightest bounds, the product of the weights. So `(clip, token_weight)` is PPO's
clipping with a truncated correction for the sampler's numerical mismatch.

Two log-probs of the same sampled token are never mixed: `old_logp` is the
trainer's, `behaviour_logp` the sampler's. Their gap is constant over the inner
epochs, and so is every weight.

Invariants, tested for every function of `__all__`: no gradient;
low <= 1 <= high; weight exactly 1 where the two log-probs agree and outside the
mask; masked tokens are never read (anchor 0 there); computed in float32.

| function          | sets                                | source            |
|-------------------|-------------------------------------|-------------------|
| `clip`            | low, high                           | PPO 2017, DAPO    |
| `sequence_mask`   | weight: row's ratio if inside, or 0 | Liu et al. 2025   |
| `sequence_weight` | weight: row's ratio, truncated      | Yao et al. 2025   |
| `token_mask`      | weight: ratio if inside, or 0       | IcePop 2025       |
| `token_weight`    | weight: ratio, truncated            | Yao et al. 2025   |
| `unbounded`       | nothing: the plain policy gradient  | -                 |
"""

from jaxroll.trust._clip import clip
from jaxroll.trust._merge import merge as merge  # a tool, not a method
from jaxroll.trust._sequence_mask import sequence_mask
from jaxroll.trust._sequence_weight import sequence_weight
from jaxroll.trust._token_mask import token_mask
from jaxroll.trust._token_weight import token_weight
from jaxroll.trust._unbounded import unbounded

__all__ = [
  "clip",
  "sequence_mask",
  "sequence_weight",
  "token_mask",
  "token_weight",
  "unbounded",
]
