"""What is added to the verifier's reward before advantages are computed?

A recipe holds a chain of such functions; each maps rewards to rewards:

  (reward f32[B], ... columns) -> reward f32[B]

Letters: B rows of the step, T tokens after the context.

Invariants, tested for every function of `__all__`: a row's new reward depends
on that row alone; finite where its inputs are; computed in float32; masked
tokens are never read.

| function     | subtracts                                | paper              |
|--------------|------------------------------------------|--------------------|
| `kl_penalty` | divergence from the reference policy     | Ziegler et al. 2019|
| `overlong`   | a ramp in tokens before the length limit | Yu et al. 2025     |
"""

from jaxroll.reward._kl_penalty import kl_penalty
from jaxroll.reward._overlong import overlong

__all__ = ["kl_penalty", "overlong"]
