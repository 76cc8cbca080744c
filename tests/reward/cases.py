"""How every reward function is called, and what its paper denies it."""

from tests.contracts import Case

CASES = {
  "kl_penalty": Case(),
  "overlong": Case(
    hyper={"limit": 5, "buffer": 3}, required=("limit", "buffer")
  ),
}
