"""Log-probs in vocabulary blocks are log-probs, and so are their gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import kernels, numerics

N, D, V = 37, 12, 301  # no multiples of anything: 301 = 2 * 128 + 45
TEMPERATURE = 0.7


def draw(scale=1.0):
  rng = np.random.default_rng(0)
  hidden = rng.normal(size=(N, D)).astype(np.float32)
  unembedding = (scale * rng.normal(size=(D, V))).astype(np.float32)
  targets = rng.integers(0, V, N).astype(np.int32)
  targets[:3] = 0, V - 1, 256  # the ends, and the last block's first column
  g = rng.normal(size=N).astype(np.float32)
  return hidden, unembedding, targets, g


def reference(hidden, unembedding, targets, g, temperature=TEMPERATURE):
  """logp, entropy, then gradients of sum(g logp), in float64."""
  hidden, unembedding = hidden.astype(np.float64), unembedding.astype(float)
  z = hidden @ unembedding / temperature
  z = z - z.max(axis=1, keepdims=True)
  logp = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
  p, rows = np.exp(logp), np.arange(len(z))
  entropy = -(p * logp).sum(axis=1)
  dz = -g[:, None] * p
  dz[rows, targets] += g
  d_temperature = -(dz * (hidden @ unembedding)).sum() / temperature**2
  dz = dz / temperature
  taken = logp[rows, targets]
  return taken, entropy, dz @ unembedding.T, hidden.T @ dz, d_temperature


@functools.cache
def measured(implementation, vocab_axis, width=128):
  """Jitted logp, entropy, and gradients of sum(g logp + entropy)."""

  def both(hidden, unembedding, targets, g, temperature):
    def total(hidden, unembedding, temperature):
      logp, entropy = kernels.token_logp(
        hidden,
        unembedding,
        targets,
        temperature,
        vocab_axis=vocab_axis,
        width=width,
        implementation=implementation,
        interpret=implementation == "pallas",
      )
      return jnp.sum(g * logp + entropy), (logp, entropy)

    gradients, values = jax.grad(total, (0, 1, 2), has_aux=True)(
      hidden, unembedding, temperature
    )
    return *values, *gradients

  return jax.jit(both)


@pytest.fixture(params=kernels.choice.IMPLEMENTATIONS)
def name(request):
  return request.param


@pytest.mark.parametrize("vocab_axis", [1, 0])
def test_values_and_gradients(name, vocab_axis):
  hidden, unembedding, targets, g = draw(scale=3)
  layout = unembedding if vocab_axis else unembedding.T
  out = measured(name, vocab_axis)(
    hidden, layout, targets, g, jnp.float32(TEMPERATURE)
  )
  logp, entropy, d_hidden, d_unembedding, d_temperature = out
  d_unembedding = d_unembedding if vocab_axis else d_unembedding.T
  found = logp, entropy, d_hidden, d_unembedding, d_temperature
  expected = reference(hidden, unembedding, targets, g)
  for a, b, most in zip(found, expected, (3e-6, 3e-6, 2e-5, 5e-6, 1e-4)):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=most)


def test_logits_of_a_million(name):
  """Nothing overflows; the entropy's large terms cancel before they round."""
  hidden, unembedding, targets, g = draw()
  unembedding[:, :] = 0
  hidden[:, 0] = 1e3
  unembedding[0] = 1e3  # every logit is 1e6 / temperature
  unembedding[0, 130:] -= 1e-3  # but these: less by 1, as float32 has them
  out = measured(name, 1)(hidden, unembedding, targets, g, jnp.float32(1))
  expected = reference(hidden, unembedding, targets, g, 1)
  assert all(np.isfinite(x).all() for x in out)
  # A logit of 1e6 is a multiple of 1/16.
  np.testing.assert_allclose(out[0], expected[0], atol=0.1)
  np.testing.assert_allclose(out[1], expected[1], atol=0.02)


def test_ties_and_one_certain_token(name):
  hidden, unembedding, targets, g = draw()
  unembedding[:] = 0
  logp, entropy, d_hidden, *_ = measured(name, 1)(
    hidden, unembedding, targets, g, jnp.float32(TEMPERATURE)
  )
  np.testing.assert_allclose(logp, -np.log(V), rtol=1e-6)
  np.testing.assert_allclose(entropy, np.log(V), rtol=1e-6)
  np.testing.assert_array_equal(d_hidden, 0)
  hidden[:], unembedding[:, 260] = 1, 100
  targets[:] = 260
  logp, entropy, *gradients = measured(name, 1)(
    hidden, unembedding, targets, g, jnp.float32(TEMPERATURE)
  )
  for x in (logp, entropy, *gradients):
    np.testing.assert_array_equal(x, 0)


def test_bfloat16_hidden_and_float32_weights(name):
  """Sums in float32; the weights' gradient has the weights' dtype."""
  hidden, unembedding, targets, g = draw()
  narrow = jnp.asarray(hidden, jnp.bfloat16)
  out = measured(name, 1)(
    narrow, unembedding, targets, g, jnp.float32(TEMPERATURE)
  )
  assert [x.dtype.name for x in out] == [
    "float32", "float32", "bfloat16", "float32", "float32"
  ]  # fmt: skip
  exact = np.asarray(narrow, np.float32)
  cast = np.asarray(jnp.asarray(unembedding, jnp.bfloat16), np.float32)
  expected = reference(exact, cast, targets, g)
  for a, b, most in zip(out, expected, (1e-5, 1e-5, 0.06, 0.06, 1e-3)):
    np.testing.assert_allclose(
      np.asarray(a, np.float32), b, rtol=0.01, atol=most
    )


def test_it_is_what_the_trainer_computes(name):
  """`numerics.token_logp` and `numerics.entropy` of the logits."""
  hidden, unembedding, targets, g = draw()
  z = jnp.matmul(hidden, unembedding) / jnp.float32(TEMPERATURE)
  logp, entropy, *_ = measured(name, 1)(
    hidden, unembedding, targets, g, jnp.float32(TEMPERATURE)
  )
  expected = numerics.token_logp(z, jnp.asarray(targets))
  np.testing.assert_allclose(logp, expected, atol=3e-6)
  np.testing.assert_allclose(entropy, numerics.entropy(z), atol=3e-6)


def test_blocks_of_any_width_agree():
  hidden, unembedding, targets, g = draw()
  outs = [
    measured("xla", 1, width)(
      hidden, unembedding, targets, g, jnp.float32(TEMPERATURE)
    )
    for width in (None, 43, V)  # one block; 7 * 43 = 301; all
  ]
  for other in outs[1:]:
    for a, b in zip(outs[0], other):
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def largest(jaxpr):
  """Most elements of an array that a program makes outside of kernels."""
  sizes = [v.aval.size for e in jaxpr.eqns for v in e.outvars]
  for equation in jaxpr.eqns:
    if equation.primitive.name != "pallas_call":
      for inner in jax.core.jaxprs_in_params(equation.params):
        sizes.append(largest(inner))
  return max(sizes, default=0)


def test_all_logits_never_stand_together(name):
  arguments = (
    jax.ShapeDtypeStruct((512, 16), jnp.float32),
    jax.ShapeDtypeStruct((16, 2048), jnp.float32),
    jax.ShapeDtypeStruct((512,), jnp.int32),
    jax.ShapeDtypeStruct((512,), jnp.float32),
    jax.ShapeDtypeStruct((), jnp.float32),
  )
  made = jax.make_jaxpr(measured(name, 1))(*arguments)
  # The gradient of the weights is the largest but for "xla"'s block.
  assert largest(made.jaxpr) <= max(16 * 2048, 512 * 128) < 512 * 2048


def test_what_is_refused():
  hidden, unembedding, targets, _ = draw()
  call = functools.partial(kernels.token_logp, hidden, unembedding, targets)
  with pytest.raises(ValueError, match="vocab_axis=2: 1 for .D, V."):
    call(vocab_axis=2)
  with pytest.raises(ValueError, match="width=100: a multiple of 128"):
    call(width=100, implementation="pallas")
  with pytest.raises(ValueError, match="width=0: a multiple of 1"):
    call(width=0, implementation="xla")
  with pytest.raises(ValueError, match="implementation='triton': one of"):
    call(implementation="triton")
  with pytest.raises(ValueError, match="D=200000: blocks of 16 rows.*lower"):
    kernels.token_logp(
      jnp.zeros((1, 200000)),
      jnp.zeros((200000, 1)),
      jnp.zeros((1,), jnp.int32),
      implementation="pallas",
    )
