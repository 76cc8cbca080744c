"""How every trust function is called, and what its paper denies it."""

from tests.contracts import Case

_NO_BOUND = (".high",)

CASES = {
  "clip": Case(),
  "sequence_mask": Case(infinite=_NO_BOUND),
  "sequence_weight": Case(infinite=_NO_BOUND),
  "token_mask": Case(infinite=_NO_BOUND),
  "token_weight": Case(infinite=_NO_BOUND),
  "unbounded": Case(infinite=_NO_BOUND),
}
