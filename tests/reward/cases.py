"""How every reward function is called, and what its paper denies it."""

from jaxroll import numerics
from tests.contracts import Case

CASES = {
  # k3: its exponential would turn masked garbage into NaN gradients.
  "kl_penalty": Case(hyper={"estimator": numerics.k3}),
  "overlong": Case(
    hyper={"limit": 5, "buffer": 3}, required=("limit", "buffer")
  ),
}
