"""Does a row stay itself in other slots, orders and meshes? (rule4)"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import parallel, rollout, types
from tests.rollout import rule4, toys

R, T, V = toys.R, toys.T, toys.V
REQUESTS = {"plain": toys.request(), "mixed": toys.mixed_request()}
MESHES = {"data8": (8, 1, 1), "data2 fsdp2 tensor2": (2, 2, 2)}
# Per-row limits under which every shard and slot runs a different time.
UNEVEN = jnp.array([7, 2, 2, 3, 6, 1, 3, 1], jnp.int32)


@functools.cache
def mesh_of(name):
  return None if name is None else parallel.make_mesh(*MESHES[name])


def generate(asked, keys, slots, mesh=None):
  """Rollouts and Info; on a mesh the parameters lie there as in training."""
  policy, params = toys.transformer()
  where = mesh_of(mesh)
  if where is not None:
    params = jax.device_put(params, parallel.shardings(params, where))
  options = {} if where is None else {"mesh": where}
  return toys.jitted(policy, slots, **options)(
    params,
    toys.CONTEXTS,
    asked,
    keys,
    rollout.sampler(toys.TEMPERATURE),
    rollout.stops((toys.STOP,)),
  )


def assert_same(asked, other):
  """`other(request, keys) -> Rollouts` does what three slots do."""
  keys = toys.keys_of(asked)
  a, _ = generate(asked, keys, 3)
  b, forced = other(asked, keys), other(rule4.force(asked, a), keys)
  differing = rule4.assert_same_rollouts(
    a, b, forced, keys=keys, vocab=V, tolerance=toys.tolerance(a)
  )
  # A token is a near-tie with probability of about 1e-5.
  assert differing <= 1


def test_the_same_program_gives_the_same_bits():
  asked = toys.mixed_request()
  one, two = (generate(asked, toys.keys_of(asked), 3) for _ in range(2))
  jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("slots", [1, 5, 20])
def test_other_slots(slots, name):
  assert_same(REQUESTS[name], lambda *row: generate(*row, slots)[0])


@pytest.mark.parametrize("name", REQUESTS)
def test_other_order(name):
  order = jnp.array([5, 2, 7, 0, 3, 6, 1, 4])
  back = jnp.argsort(order)

  def shuffled(asked, keys):
    asked = jax.tree.map(lambda x: x[order], asked)
    rows, _ = generate(asked, keys[order], 3)
    return jax.tree.map(lambda x: x[back], rows)

  assert_same(REQUESTS[name], shuffled)


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("mesh", MESHES)
def test_other_meshes(mesh, name):
  assert_same(REQUESTS[name], lambda *row: generate(*row, 8, mesh)[0])


@pytest.mark.parametrize("mesh", MESHES)
def test_queues_of_unequal_length(mesh):
  """Rows are dealt forth and back, the highest limits first."""
  valid = jnp.array([True, True, False, True, True, False, True, True])
  asked = toys.request(limit=UNEVEN, valid=valid)
  keys = toys.keys_of(asked)
  assert_same(asked, lambda *row: generate(*row, 8, mesh)[0])
  rows, info = generate(asked, keys, 8, mesh)
  # A row for each slot: a queue runs as long as its longest row. Limits are
  # 7 2 - 3 6 - 3 1: rows 0 4 3 6, then 1 7 and those not valid, back.
  shards = 8 if mesh == "data8" else 4
  dealt = np.array([0, 4, 3, 6, 5, 2, 7, 1])
  queues = np.asarray(rows.length)[dealt].reshape(-1, shards)
  trips = queues.max(axis=0)
  assert len(set(trips.tolist())) >= 3
  assert info.decode_steps == trips.max()
  assert info.slot_steps == trips.sum() * len(queues)


@pytest.mark.parametrize("mesh", MESHES)
def test_shards_that_do_not_divide_rows_and_contexts(mesh):
  """Six rows of three contexts, in fewer slots than shards."""
  policy = toys.bigram()
  params = policy.init(jax.random.key(2))

  asked = jax.tree.map(lambda x: x[:6], toys.request())
  contexts = jax.tree.map(lambda x: x[:3], toys.CONTEXTS)

  def run(slots, **options):
    return toys.jitted(policy, slots, **options)(
      params,
      contexts,
      asked,
      toys.keys_of(asked),
      rollout.sampler(1.0),
      rollout.stops((toys.STOP,)),
    )

  alone, _ = run(3)
  spread, info = run(2, mesh=mesh_of(mesh))
  # A table's rows need no sums: the same bits.
  jax.tree.map(np.testing.assert_array_equal, spread, alone)
  assert spread.valid.all() and spread.tokens.shape == (6, T)
  assert info.slot_steps == alone.length.sum()


# --- the checker itself


def one_token(token, logp):
  """Rollouts of a single token."""
  empty = rollout.empty(1, T)
  first = (jnp.arange(T) == 0)[None, :]
  return empty.replace(
    valid=jnp.array([True]),
    length=jnp.array([1], jnp.int32),
    tokens=jnp.where(first, token, 0).astype(jnp.int32),
    origin=first.astype(jnp.int8) * types.SAMPLED,
    behaviour_logp=jnp.where(first, logp, 0.0),
    mask=first,
  )


@pytest.mark.parametrize("apart, near", [(1e-6, True), (1e-3, False)])
def test_checker_tells_near_ties_from_faults(apart, near):
  key = jax.random.key(0)
  noise = jax.random.gumbel(jax.random.fold_in(key, 0), (V,))
  # In run b token 5 leads over token 3 by `apart`.
  a = one_token(3, -1.0)
  b = one_token(5, -1.0 + noise[3] - noise[5] + apart)
  check = functools.partial(
    rule4.assert_same_rollouts, keys=key[None], vocab=V, tolerance=2e-6
  )
  if near:
    assert check(a, b, a) == 1
  else:
    with pytest.raises(AssertionError, match="no near-tie"):
      check(a, b, a)


@pytest.mark.parametrize(
  "name, message",
  [
    ("behaviour_logp", "log-probs differ"),
    ("length", "ends elsewhere"),
    ("tokens", "no near-tie"),
    ("mask", "mask"),
    ("group", "group"),
  ],
)
def test_checker_finds_a_tampered_row(name, message):
  asked = toys.request()
  keys = toys.keys_of(asked)
  a, _ = generate(asked, keys, 3)
  forced, _ = generate(rule4.force(asked, a), keys, 3)
  check = functools.partial(
    rule4.assert_same_rollouts, keys=keys, vocab=V, tolerance=1e-5
  )
  assert check(a, a, forced) == 0
  value = getattr(a, name)
  place = (4,) if value.ndim == 1 else (4, 0)
  changed = ~value[place] if value.dtype == bool else value[place] - 1
  b = a.replace(**{name: value.at[place].set(changed)})
  with pytest.raises(AssertionError, match=message):
    check(a, b, forced)
