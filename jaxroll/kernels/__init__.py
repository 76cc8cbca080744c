"""Where does it pay to write the machine's own program? Two kernels for TPUs.

  shared_prefix_attention  decoding rows that share prompts: a prompt's keys and
                           values are read once a group, not once a row
  token_logp               log-probs and entropies from hidden states: logits
                           live a vocabulary block at a time, also backwards

Each is one function with two implementations of one meaning, "xla" and
"pallas"; `implementation` says which one a backend gets.
"""

from jaxroll.kernels.choice import implementation as implementation
from jaxroll.kernels.shared_prefix import (
  shared_prefix_attention as shared_prefix_attention,
)
from jaxroll.kernels.token_logp import token_logp as token_logp

__all__ = ["implementation", "shared_prefix_attention", "token_logp"]
