"""Which networks are there? Each is a `types.Policy`: four pure functions.

  transformer  decoder-only, grouped-query attention, rotary positions; with a
               window, or with experts of which a router chooses

`load` gives a pretrained one: Llama, SmolLM2, Mistral, Qwen2, Qwen3, Qwen3-MoE
from a Hugging Face folder or a GGUF file; `export` writes a folder that
Transformers loads; `routes` says what the routers chose.

`lora` puts low-rank adapters on a frozen policy, and merges them for export.

A model of your own needs no class of ours: give `init`, `apply`, `unembed` and
`init_cache` with the meaning `types.Policy` states.
"""

from jaxroll.models import families as families
from jaxroll.models import lora as lora
from jaxroll.models import transformer as transformer
from jaxroll.models.config import Config as Config
from jaxroll.models.config import Experts as Experts
from jaxroll.models.config import RopeScaling as RopeScaling
from jaxroll.models.experts import Routes as Routes
from jaxroll.models.huggingface import export as export
from jaxroll.models.pretrained import load as load
from jaxroll.models.transformer import policy as policy
from jaxroll.models.transformer import routes as routes
from jaxroll.models.weights import Pretrained as Pretrained

__all__ = [
  "Config",
  "Experts",
  "Pretrained",
  "RopeScaling",
  "Routes",
  "export",
  "families",
  "load",
  "lora",
  "policy",
  "routes",
  "transformer",
]
