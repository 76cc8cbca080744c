"""Is the transformer the one its docstring names?"""

import dataclasses
import doctest

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import models, types
from jaxroll.models import transformer
from tests.models import reference, tiny

S = 8
# Distinct tokens: the gradient to an embedding is then that of one place.
TOKENS = jnp.array([[3, 11, 7, 20, 1, 15, 9, 5]], jnp.int32)
POSITIONS = jnp.arange(S, dtype=jnp.int32)[None, :]
# A row of five tokens, right-padded.
REAL = 5
PADDED = jnp.where(POSITIONS < REAL, POSITIONS, types.EMPTY)


def forward(policy, params, tokens=TOKENS, positions=POSITIONS):
  hidden, cache = policy.apply(params, tokens, positions)
  assert cache is None
  return hidden, policy.unembed(params, hidden)


def test_docstring_examples():
  result = doctest.testmod(transformer)
  assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize("name", tiny.OPTIONS)
def test_equals_the_transcription(name):
  config = tiny.config(**tiny.OPTIONS[name])
  policy, params = tiny.network(**tiny.OPTIONS[name])
  hidden, logits = forward(policy, params)
  expected = reference.forward(
    params, config, np.asarray(TOKENS[0]), np.arange(S)
  )
  np.testing.assert_allclose(hidden[0], expected[0], rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(logits[0], expected[1], rtol=1e-4, atol=2e-5)


def influence(policy, params, positions):
  """bool[S, S]: whether the token at j moves the hidden state at i."""
  direction = jax.random.normal(jax.random.key(3), (16,))

  def read(embedding, i):
    changed = params | {"embed": {"embedding": embedding}}
    hidden, _ = policy.apply(changed, TOKENS, positions)
    return jnp.dot(hidden[0, i], direction)

  gradient = jax.jit(jax.vmap(jax.grad(read), in_axes=(None, 0)))(
    params["embed"]["embedding"], jnp.arange(S)
  )
  assert jnp.all(jnp.isfinite(gradient))
  return np.asarray(jnp.any(gradient[:, TOKENS[0]] != 0, axis=-1))


@pytest.mark.parametrize("name", ["plain", "qk_norm"])
def test_causal(name):
  seen = influence(*tiny.network(**tiny.OPTIONS[name]), POSITIONS)
  np.testing.assert_array_equal(seen, np.tri(S, dtype=bool))


def test_padding_is_not_read():
  policy, params = tiny.network()
  seen = influence(policy, params, PADDED)[:REAL]
  expected = np.tri(S, dtype=bool)[:REAL]
  assert not expected[:, REAL:].any()
  np.testing.assert_array_equal(seen, expected)
  # Nor does a padded row differ from the row without padding.
  alone, _ = forward(policy, params, TOKENS[:, :REAL], POSITIONS[:, :REAL])
  padded, _ = forward(policy, params, TOKENS, PADDED)
  np.testing.assert_allclose(padded[:, :REAL], alone, rtol=2e-6, atol=2e-6)


def test_packed_rows_read_by_position_alone():
  """The order of columns says nothing: positions do."""
  policy, params = tiny.network()
  order = jnp.array([4, 0, 7, 2, 6, 1, 3, 5])
  hidden, _ = forward(policy, params)
  mixed, _ = forward(policy, params, TOKENS[:, order], POSITIONS[:, order])
  np.testing.assert_allclose(mixed, hidden[:, order], rtol=2e-5, atol=2e-6)


def test_positions_are_relative():
  policy, params = tiny.network()
  hidden, _ = forward(policy, params)
  shifted, _ = forward(policy, params, positions=POSITIONS + 37)
  np.testing.assert_allclose(shifted, hidden, rtol=1e-4, atol=2e-5)
  stretched, _ = forward(policy, params, positions=2 * POSITIONS)
  assert jnp.max(jnp.abs(stretched - hidden)) > 0.01


@pytest.mark.parametrize("remat", ["full", "dots"])
def test_remat_changes_nothing(remat):
  plain, params = tiny.network()

  def value_and_grad(policy):
    def loss(params):
      return jnp.sum(jnp.sin(forward(policy, params)[1]))

    return jax.jit(jax.value_and_grad(loss))(params)

  expected = value_and_grad(plain)
  actual = value_and_grad(models.policy(tiny.config(remat=remat)))
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
    actual,
    expected,
  )


def test_every_field_is_used():
  """A field that is read by nobody would change the maths in silence."""
  changes = {
    "vocab_size": 30,
    "embed": 8,
    "layers": 3,
    "heads": 2,
    "kv_heads": 4,
    "head_dim": 4,
    "ffn": 16,
    "rope_theta": 5e6,
    "norm_eps": 0.5,
    "qk_norm": True,
    "qkv_bias": True,
    "o_bias": True,
    "rope_scaling": models.RopeScaling("linear", 2.0),
    "windows": (3, 0),
    "experts": models.Experts(count=4, per_token=2),
    "tied_embedding": False,
    "remat": "full",
    "dtype": "bfloat16",
  }
  assert set(changes) == {f.name for f in dataclasses.fields(models.Config)}

  def traces(config):
    """Parameters' shapes, and the program of loss and gradient."""
    policy = models.policy(config)
    params = jax.eval_shape(policy.init, jax.random.key(0))

    def loss(params):
      return jnp.sum(forward(policy, params)[1])

    return params, str(jax.make_jaxpr(jax.grad(loss))(params))

  base = traces(tiny.config())
  assert traces(tiny.config()) == base
  for name, value in changes.items():
    assert traces(tiny.config(**{name: value})) != base, name


def test_bfloat16():
  policy, params = tiny.network(dtype="bfloat16")
  assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("f4")}
  hidden, logits = forward(policy, params)
  assert hidden.dtype == jnp.bfloat16 and logits.dtype == jnp.float32
  _, expected = forward(models.policy(tiny.config()), params)
  # Eight bits of mantissa through two layers.
  np.testing.assert_allclose(logits, expected, rtol=0.05, atol=0.15)


def test_layers_are_stacked_and_differ():
  policy, _ = tiny.network()
  params = policy.init(jax.random.key(0))
  for path, leaf in jax.tree_util.tree_leaves_with_path(params["layers"]):
    assert leaf.shape[0] == 2
    if "kernel" in jax.tree_util.keystr(path):
      assert jnp.any(leaf[0] != leaf[1]), path


@pytest.mark.parametrize(
  "change, message",
  [
    ({"vocab_size": 0}, "vocab_size=0: must be at least 1"),
    ({"embed": -1}, "embed=-1"),
    ({"layers": 0}, "layers=0"),
    ({"heads": 4, "kv_heads": 3}, "heads=4 is not a multiple of kv_heads=3"),
    ({"head_dim": 7}, "head_dim=7"),
    ({"rope_theta": 0.0}, "rope_theta=0.0: must be above 0"),
    ({"norm_eps": float("nan")}, "norm_eps=nan: must be above 0"),
    ({"remat": "some"}, "remat='some': one of"),
    ({"dtype": "int8"}, "dtype='int8': one of"),
  ],
)
def test_bad_config(change, message):
  with pytest.raises(ValueError, match=message):
    tiny.config(**change)
