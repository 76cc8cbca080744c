"""numerics: hand-worked values, identities, and what masks must not leak."""

import doctest
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroll import numerics

B, P = 16, 4
GROUP = jnp.array([0, 1, 1, 3, 3, 3, 0, 1, -1, 4, 3, 0, 1, 3, 9, 0], jnp.int32)
WHERE = jnp.array([1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1], bool)
X = jnp.asarray(np.random.default_rng(0).normal(size=B), jnp.float32)


def _std0(*args):
  return numerics.group_std(*args, ddof=0)


def _m2(*args):
  return numerics.group_moments(*args)[2]


def _count(x, *args):
  del x
  return numerics.group_count(*args)


# Each beside its numpy transcription: members of one group -> a number.
GROUP_FUNCTIONS = {
  "sum": (numerics.group_sum, np.sum),
  "count": (_count, len),
  "mean": (numerics.group_mean, lambda x: x.mean() if len(x) else 0.0),
  "m2": (_m2, lambda x: ((x - x.mean()) ** 2).sum() if len(x) else 0.0),
  "std": (numerics.group_std, lambda x: x.std(ddof=1) if len(x) > 1 else 0),
  "std0": (_std0, lambda x: x.std() if len(x) else 0.0),
  "tied": (numerics.group_tied, lambda x: len(set(x.tolist())) < 2),
}


@pytest.fixture(params=GROUP_FUNCTIONS)
def group_function(request):
  return GROUP_FUNCTIONS[request.param]


def _by_group(fn, x=X, group=GROUP, where=WHERE):
  return fn(x, group, P, where)


def test_examples_in_the_docstrings():
  assert doctest.testmod(numerics).failed == 0


# --- groups


def test_group_matches_the_equation_on_its_members(group_function):
  fn, equation = group_function
  x, group, where = np.asarray(X, np.float64), np.array(GROUP), np.array(WHERE)
  members = [x[(group == p) & where] for p in range(P)]
  assert [len(m) for m in members] == [4, 3, 0, 4]
  expected = [equation(m) for m in members]
  np.testing.assert_allclose(_by_group(fn), expected, rtol=2e-6, atol=1e-6)


def test_group_dtypes(group_function):
  out = _by_group(group_function[0])
  chex.assert_shape(out, (P,))
  assert not out.weak_type
  assert out.dtype == {
    numerics.group_tied: jnp.bool_,
    _count: jnp.int32,
  }.get(group_function[0], jnp.float32)


def test_group_jit_equals_eager_and_compiles_once(group_function):
  # A partial is a function of its own to jit: an empty cache.
  fn = jax.jit(functools.partial(group_function[0]), static_argnums=2)
  for where in (WHERE, ~WHERE):
    np.testing.assert_allclose(
      fn(X, GROUP, P, where), _by_group(group_function[0], where=where), 1e-6
    )
  assert fn._cache_size() == 1


def test_group_never_reads_rows_that_do_not_count(group_function):
  fn = group_function[0]
  inside = WHERE & (GROUP >= 0) & (GROUP < P)
  for garbage in (jnp.nan, jnp.inf, -1e30):
    x = jnp.where(inside, X, garbage)
    chex.assert_trees_all_equal(_by_group(fn, x), _by_group(fn))


def test_group_permuting_rows_and_relabelling(group_function):
  fn = group_function[0]
  order = np.random.default_rng(1).permutation(B)
  permuted = _by_group(fn, X[order], GROUP[order], WHERE[order])
  np.testing.assert_allclose(permuted, _by_group(fn), rtol=1e-5, atol=1e-6)
  relabelled = _by_group(fn, group=P - 1 - GROUP)
  chex.assert_trees_all_equal(relabelled[::-1], _by_group(fn))


def test_group_does_not_read_other_groups(group_function):
  fn = group_function[0]
  other = jnp.where(GROUP == 1, jnp.nan, X)
  keep = np.array([0, 2, 3])
  chex.assert_trees_all_equal(_by_group(fn, other)[keep], _by_group(fn)[keep])


def test_group_nothing_counts(group_function):
  out = _by_group(group_function[0], where=jnp.zeros(B, bool))
  empty = group_function[0] is numerics.group_tied
  np.testing.assert_array_equal(out, np.full(P, empty))


def test_group_finite_gradients_on_ties_and_empty_groups():
  for fn in (numerics.group_mean, numerics.group_std, _m2):
    grad = jax.grad(lambda x, fn=fn: _by_group(fn, x).sum())(jnp.full(B, 0.1))
    chex.assert_tree_all_finite(grad)
    if fn is not numerics.group_mean:
      np.testing.assert_array_equal(grad, 0.0)


def test_group_gradients_on_spread_groups():
  x = jnp.where(WHERE & (GROUP >= 0) & (GROUP < P), X, jnp.nan)
  mean_grad = jax.grad(lambda x: _by_group(numerics.group_mean, x)[1])(x)
  expected = np.zeros(B)
  expected[[1, 2, 12]] = 1 / 3
  np.testing.assert_allclose(mean_grad, expected, rtol=1e-6)
  # d std / d x_i = (x_i - mean) / ((n - 1) std).
  std_grad = jax.grad(lambda x: _by_group(numerics.group_std, x)[1])(x)
  members = np.asarray(X)[[1, 2, 12]]
  expected[[1, 2, 12]] = (members - members.mean()) / (2 * members.std(ddof=1))
  np.testing.assert_allclose(std_grad, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("value", [0.1, 0.7, 1 / 3, 1e-3, 123.456, -0.3])
def test_ties_are_exactly_zero(value):
  x, group = jnp.full(B, value, jnp.float32), jnp.zeros(B, jnp.int32)
  for size in range(1, B + 1):
    rows = (x, group, 1, jnp.arange(B) < size)
    np.testing.assert_array_equal(numerics.group_mean(*rows), x[:1])
    np.testing.assert_array_equal(numerics.group_std(*rows), [0.0])
    np.testing.assert_array_equal(numerics.group_tied(*rows), [True])


def test_smallest_difference_is_not_tied():
  x = jnp.array([1.0, np.nextafter(np.float32(1), np.float32(2))])
  rows = (x, jnp.zeros(2, jnp.int32), 1, jnp.ones(2, bool))
  np.testing.assert_array_equal(numerics.group_tied(*rows), [False])


def test_group_reduces_bf16_in_fp32():
  # bf16 has 8 bits: a bf16 sum of ones stalls at 256.
  x, group = jnp.ones(1000, jnp.bfloat16), jnp.zeros(1000, jnp.int32)
  rows = (x, group, 1, jnp.ones(1000, bool))
  np.testing.assert_array_equal(numerics.group_sum(*rows), [1000.0])
  np.testing.assert_array_equal(numerics.group_mean(*rows), [1.0])


def test_group_on_rows_sharded_over_eight_devices(group_function):
  mesh = Mesh(np.array(jax.devices()), ("data",))
  put = NamedSharding(mesh, PartitionSpec("data"))
  fn = jax.jit(group_function[0], static_argnums=2)
  x, group, where = jax.device_put((X, GROUP, WHERE), put)
  out = fn(x, group, P, where)
  assert len(x.sharding.device_set) == 8
  expected = _by_group(group_function[0])
  np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


# --- masks and division


def test_masked_sum_and_mean():
  x = jnp.array([[1.0, 2.0, jnp.nan], [jnp.inf, jnp.nan, -jnp.inf]])
  mask = jnp.array([[True, True, False], [False, False, False]])
  np.testing.assert_array_equal(numerics.masked_sum(x, mask), 3.0)
  np.testing.assert_array_equal(numerics.masked_mean(x, mask), 1.5)
  np.testing.assert_array_equal(numerics.masked_mean(x, mask, 1), [1.5, 0.0])
  np.testing.assert_array_equal(numerics.masked_sum(x, mask, 0), [1, 2, 0])
  grad = jax.grad(lambda x: numerics.masked_mean(x, mask, axis=1).sum())(x)
  np.testing.assert_array_equal(grad, [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])


def test_masked_reductions_are_fp32():
  x, mask = jnp.ones(1000, jnp.bfloat16), jnp.ones(1000, bool)
  for fn, expected in ((numerics.masked_sum, 1000), (numerics.masked_mean, 1)):
    assert fn(x, mask).dtype == jnp.float32
    np.testing.assert_array_equal(fn(x, mask), expected)


def test_a_mask_of_another_shape_is_refused():
  with pytest.raises(AssertionError):
    numerics.masked_sum(jnp.ones((2, 3)), jnp.ones((2, 1), bool))


def test_safe_divide():
  x, y = jnp.array([1.0, 0.0, jnp.inf, 6.0]), jnp.array([0.0, 0.0, 0.0, 4.0])
  np.testing.assert_array_equal(numerics.safe_divide(x, y), [0, 0, 0, 1.5])
  grads = jax.grad(lambda *a: numerics.safe_divide(*a).sum(), (0, 1))(x, y)
  np.testing.assert_array_equal(grads[0], [0, 0, 0, 0.25])
  np.testing.assert_array_equal(grads[1], [0, 0, 0, -0.375])  # -6 / 4^2
  assert float(numerics.safe_divide(1, 4)) == 0.25


def test_merge_moments_is_the_moments_of_the_union():
  rng = np.random.default_rng(2)
  left, right = rng.normal(size=(5, 3)), rng.normal(3.0, 2.0, size=(8, 3))

  def moments(x):
    rows = (np.full(3, len(x)), x.mean(0), ((x - x.mean(0)) ** 2).sum(0))
    return tuple(jnp.asarray(row, jnp.float32) for row in rows)

  merged = numerics.merge_moments(moments(left), moments(right))
  expected = moments(np.concatenate([left, right]))
  chex.assert_trees_all_close(merged, expected, rtol=1e-5)


def test_merge_moments_with_empty_samples():
  # Second entry: both samples are empty and their means are garbage.
  empty = (jnp.zeros(2), jnp.full(2, jnp.nan), jnp.zeros(2))
  some = (jnp.array([3.0, 0.0]), jnp.array([0.1, 7.0]), jnp.array([2.0, 0.0]))
  expected = (some[0], jnp.array([0.1, 0.0]), some[2])
  chex.assert_trees_all_equal(numerics.merge_moments(empty, some), expected)
  chex.assert_trees_all_equal(numerics.merge_moments(some, empty), expected)


# --- log-probs


LOGITS = jnp.array(
  [
    [0.0, np.log(2), np.log(5), -np.inf],  # p = 1/8, 2/8, 5/8, 0
    [-np.inf, 3.0, -np.inf, -np.inf],
    [1e4, 1e4, 1e4, 1e4],
  ],
  jnp.float32,
)


def test_token_logp():
  out = numerics.token_logp(LOGITS, jnp.array([1, 1, 3]))
  np.testing.assert_allclose(out, [np.log(2 / 8), 0.0, -np.log(4)], rtol=1e-6)
  removed = numerics.token_logp(LOGITS[:2], jnp.array([3, 0]))
  np.testing.assert_array_equal(removed, [-np.inf, -np.inf])


def test_token_logp_gradient_is_one_hot_minus_p():
  tokens = jnp.array([1, 1, 3])
  grad = jax.grad(lambda x: numerics.token_logp(x, tokens).sum())(LOGITS)
  expected = [[-1 / 8, 6 / 8, -5 / 8, 0], [0, 0, 0, 0], [-1 / 4] * 3 + [3 / 4]]
  np.testing.assert_allclose(grad, expected, rtol=1e-5, atol=1e-7)


def test_entropy():
  p = np.array([1, 2, 5]) / 8
  expected = [-(p * np.log(p)).sum(), 0.0, np.log(4)]
  np.testing.assert_allclose(numerics.entropy(LOGITS), expected, rtol=1e-6)
  # A mask of -1e30 or of the lowest float removes a token as -inf does.
  for low in (-1e30, jnp.finfo(jnp.float32).min):
    masked = jnp.where(jnp.isinf(LOGITS), low, LOGITS)
    np.testing.assert_allclose(numerics.entropy(masked), expected, rtol=1e-6)


def test_entropy_gradient_is_minus_p_times_logp_plus_entropy():
  p = np.array([1, 2, 5]) / 8
  h = -(p * np.log(p)).sum()
  grad = jax.grad(lambda x: numerics.entropy(x).sum())(LOGITS)
  np.testing.assert_allclose(grad[0, :3], -p * (np.log(p) + h), rtol=1e-5)
  np.testing.assert_allclose(grad[0, 3], 0.0, atol=0)
  np.testing.assert_allclose(grad[1:], np.zeros((2, 4)), atol=1e-6)


def test_logps_of_bf16_logits_are_fp32():
  logits = jnp.zeros((1, 1000), jnp.bfloat16)
  logp = numerics.token_logp(logits, jnp.array([7]))
  entropy = numerics.entropy(logits)
  assert logp.dtype == entropy.dtype == jnp.float32
  np.testing.assert_allclose(logp, [-np.log(1000)], rtol=1e-6)
  np.testing.assert_allclose(entropy, [np.log(1000)], rtol=1e-6)


# --- KL estimators


def test_kl_estimators_by_hand():
  logp, ref_logp = jnp.array([-1.0, -1.5]), jnp.array([-2.0, -1.5])
  # exp(-1) - 1 + 1 = 0.36788.
  for fn, expected in (
    (numerics.k1, 1.0),
    (numerics.k2, 0.5),
    (numerics.k3, 0.36787944),
  ):
    np.testing.assert_allclose(fn(logp, ref_logp), [expected, 0], rtol=1e-6)


def _policies():
  rng = np.random.default_rng(3)
  return (
    jnp.asarray(rng.normal(size=5), jnp.float32),
    jax.nn.log_softmax(jnp.asarray(rng.normal(size=5), jnp.float32)),
  )


def _exact_kl(logits, ref_logp):
  logp = jax.nn.log_softmax(logits)
  return jnp.sum(jnp.exp(logp) * (logp - ref_logp))


def _expected(fn, logits, ref_logp):
  """E over a token sampled from the logits, the sampling not differentiated."""
  p = jax.lax.stop_gradient(jax.nn.softmax(logits))
  return jnp.sum(p * fn(jax.nn.log_softmax(logits), ref_logp))


def test_k1_and_k3_are_unbiased():
  logits, ref_logp = _policies()
  expected = float(_exact_kl(logits, ref_logp))
  assert expected > 0.1
  for fn in (numerics.k1, numerics.k3):
    out = _expected(fn, logits, ref_logp)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_expected_gradients():
  logits, ref_logp = _policies()
  kl_grad = jax.grad(_exact_kl)(logits, ref_logp)
  grad = jax.grad(_expected, argnums=1)
  k2_grad = grad(numerics.k2, logits, ref_logp)
  np.testing.assert_allclose(k2_grad, kl_grad, rtol=1e-4, atol=1e-6)
  k1_grad = grad(numerics.k1, logits, ref_logp)
  np.testing.assert_allclose(k1_grad, np.zeros(5), atol=1e-6)


def test_k3_far_apart_is_finite():
  logp, ref_logp = jnp.array([-101.0, -1.0]), jnp.array([-1.0, -101.0])
  value = numerics.k3(logp, ref_logp)
  # e^20 - 21 at the bound; e^-100 - 1 + 100 on the other side.
  np.testing.assert_allclose(value, [485165195.4 - 21, 99.0], rtol=1e-6)
  grads = jax.grad(lambda *x: numerics.k3(*x).sum(), (0, 1))(logp, ref_logp)
  np.testing.assert_allclose(grads[0], [0.0, 1.0], rtol=1e-6)
  np.testing.assert_allclose(grads[1], [0.0, -1.0], rtol=1e-6)


def test_k3_keeps_its_digits_near_zero():
  # d^2 / 2 + d^3 / 6; exp(d) - 1 - d in fp32 is off by 10 per cent here.
  d = float(np.float32(3e-4))
  out = numerics.k3(jnp.zeros(()), jnp.float32(d))
  np.testing.assert_allclose(out, d**2 / 2 + d**3 / 6, rtol=1e-3)


# --- layout


def _expand(counts, rows):
  pairs = [(g, i) for g, count in enumerate(counts) for i in range(count)]
  valid = [True] * len(pairs) + [False] * rows
  pairs += [(0, 0)] * rows
  group, rank = zip(*pairs[:rows])
  return group, rank, valid[:rows]


@pytest.mark.parametrize(
  "counts",
  [[2, 0, 3, 0], [0, 0, 0, 0], [0, 0, 0, 8], [3, 3, 3, 3], [0, 9, 0, 1]],
)
def test_expand_counts(counts):
  fn = jax.jit(numerics.expand_counts, static_argnums=1)
  out = fn(jnp.array(counts, jnp.int32), 8)
  assert [x.dtype for x in out] == [jnp.int32, jnp.int32, jnp.bool_]
  for x, expected in zip(out, _expand(counts, 8)):
    np.testing.assert_array_equal(x, expected)


def test_rank_by_orders_like_python():
  rng = np.random.default_rng(4)
  keys = rng.integers(0, 3, size=(3, 12))
  keys[2] = keys[2] > 0
  typed = (
    jnp.asarray(keys[0], jnp.float32),
    jnp.asarray(keys[1], jnp.int32),
    jnp.asarray(keys[2], bool),
  )
  order = sorted(range(12), key=lambda i: (*(-keys[:, i]), i))
  rank = jax.jit(numerics.rank_by)(*typed)
  assert rank.dtype == jnp.int32
  np.testing.assert_array_equal(np.argsort(rank), order)


def test_rank_by_edges():
  floats = jnp.array([0.0, jnp.nan, -0.0, jnp.inf, -jnp.inf])
  np.testing.assert_array_equal(numerics.rank_by(floats), [1, 4, 2, 0, 3])
  ints = jnp.array([-(2**31), 2**31 - 1, 0, -(2**31)], jnp.int32)
  np.testing.assert_array_equal(numerics.rank_by(ints), [2, 0, 1, 3])
