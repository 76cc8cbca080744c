"""Which networks are there? Each is a `types.Policy`: four pure functions.

  transformer  decoder-only, grouped-query attention, rotary positions

A model of your own needs no class of ours: give `init`, `apply`, `unembed` and
`init_cache` with the meaning `types.Policy` states.
"""

from jaxroll.models import transformer as transformer
from jaxroll.models.transformer import Config as Config
from jaxroll.models.transformer import policy as policy

__all__ = ["Config", "policy", "transformer"]
