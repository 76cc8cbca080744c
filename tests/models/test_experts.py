"""Are the chosen experts the ones computed, forwards and backwards?"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import models
from jaxroll.models import experts
from tests.models import tiny

CONFIG = tiny.config(experts=models.Experts(5, 2, normalised=False))
B, S = 2, 6


def every_expert(params, x):
  """The same by computing all experts for all tokens."""
  probability = jax.nn.softmax(x @ params["router"]["kernel"], axis=-1)
  lowest = jnp.sort(probability, axis=-1)[..., -2]
  weight = jnp.where(probability >= lowest[..., None], probability, 0.0)
  gate = jnp.einsum("BSD,EDF->BSEF", x, params["gate"])
  up = jnp.einsum("BSD,EDF->BSEF", x, params["up"])
  return jnp.einsum(
    "BSEF,EFD,BSE->BSD", jax.nn.silu(gate) * up, params["down"], weight
  )


def test_equals_all_experts_masked():
  x = jax.random.normal(jax.random.key(0), (B, S, CONFIG.embed))
  module = experts.ExpertFfn(CONFIG)
  params = module.init(jax.random.key(1), x)["params"]
  params = jax.tree.map(lambda p: 10 * p, params)
  direction = jax.random.normal(jax.random.key(2), x.shape)

  def of(function):
    def loss(params, x):
      y = function(params, x)
      return jnp.sum(y * direction), y

    return jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(params, x)

  (_, found), found_gradient = of(lambda p, x: module.apply({"params": p}, x))
  (_, expected), gradient = of(every_expert)
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
  for a, b in zip(*map(jax.tree.leaves, (found_gradient, gradient))):
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_route():
  # Softmax of log p is p; 0.4 and 0.3 of 0.7, ties to the lower number.
  logits = jnp.log(jnp.array([[0.1, 0.4, 0.2, 0.3], [0.25] * 4]))
  weights, chosen = experts.route(logits, 2, False)
  np.testing.assert_array_equal(chosen, [[1, 3], [0, 1]])
  np.testing.assert_allclose(weights, [[0.4, 0.3], [0.25, 0.25]], rtol=1e-6)
  weights, _ = experts.route(logits, 2, True)
  np.testing.assert_allclose(weights, [[4 / 7, 3 / 7], [0.5, 0.5]], rtol=1e-6)


@pytest.mark.parametrize(
  "make, said",
  [
    (lambda: models.Experts(0, 1), "count=0"),
    (lambda: models.Experts(4, 5), r"per_token=5: must be in \[1, count=4\]"),
    (lambda: models.RopeScaling("yarn", 2.0), "kind='yarn': one of"),
    (lambda: models.RopeScaling("linear", 0.5), "factor=0.5"),
    (lambda: models.RopeScaling("llama3", 2.0, low=4.0), "0 < low < high"),
    (lambda: tiny.config(windows=(3,)), "windows=.*layers=2"),
    (lambda: tiny.config(windows=(3, -1)), "windows=.*at least 1"),
  ],
)
def test_bad_switches(make, said):
  with pytest.raises(ValueError, match=said):
    make()
