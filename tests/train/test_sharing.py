"""Contexts are read once, short rows cheaply, and the gradient is the same."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxroll import (
  allocate,
  models,
  objective,
  parallel,
  rollout,
  train,
  trust,
  types,
)
from jaxroll.models import lora
from jaxroll.recipe import Recipe
from jaxroll.train import scoring
from tests.models import tiny as networks
from tests.train import tiny

B, P, S, T, V = 20, 5, 12, 16, networks.VOCAB
KL = types.Loss("kl", objective.kl, 0.1, objective.aggregate.sequence_mean)
PPO = types.Loss(
  "policy", objective.ppo_clip, 1.0, objective.aggregate.token_mean
)
RULES = Recipe(
  "test",
  allocate.uniform(),
  trust=(trust.clip, trust.token_weight),
  losses=(PPO, KL),
  reference=True,
)
OPTIONS = {
  "plain": {},
  "everything": networks.EVERYTHING,
  "choices": networks.CHOICES,
  "remat": {"remat": "full"},
  "dots": {"remat": "dots", "tied_embedding": False},
}
CONTEXTS = types.Contexts(
  tokens=jax.random.randint(jax.random.key(1), (P, S), 0, V),
  length=jnp.array([S, 1, 5, 7, S - 1], jnp.int32),
)


def columns(length, T=T, seed=0):
  """Rows of groups of unequal sizes; nobody is in group 3."""
  rng = np.random.default_rng(seed)
  B, whole = len(length), lambda x: jnp.asarray(x, jnp.int32)
  group = np.array([0, 1, 2, 4, 4, 4, 0])[np.arange(B) % 7]
  mask = np.arange(T)[None, :] < np.asarray(length)[:, None]
  mask[::6] = False  # nothing to train in these rows
  real = lambda: jnp.asarray(-3 * rng.random((B, T)), jnp.float32)  # noqa: E731
  return {
    "group": whole(group),
    "context": whole(group),
    "length": whole(length),
    "round": whole(np.zeros(B)),
    "tokens": whole(rng.integers(0, V, (B, T))),
    "mask": jnp.asarray(mask),
    "valid": jnp.ones(B, bool),
    "adv": jnp.asarray(rng.normal(size=B), jnp.float32),
    "behaviour_logp": real(),
    "ref_logp": real(),
    "old_logp": real(),
  }


def rollouts(rows):
  names = ("context", "tokens", "length")
  empty = rollout.empty(*rows["tokens"].shape)
  return empty.replace(**{name: rows[name] for name in names})


ROWS = columns(np.random.default_rng(2).integers(1, T + 1, B))


def keeper():
  """An optimiser that moves nothing and keeps the last gradient."""

  def init(params):
    return jax.tree.map(jnp.zeros_like, params)

  def step(grads, state, params=None):
    del params
    return jax.tree.map(jnp.zeros_like, state), grads

  return optax.GradientTransformation(init, step)


def gradient(
  policy, params, rows=ROWS, rules=RULES, contexts=CONTEXTS, mesh=None
):
  """The last optimiser step's gradient, and the metrics."""
  optimiser = keeper()

  @jax.jit
  def run(params, rows):
    learner = types.Learner(params, optimiser.init(params))
    learner, metrics = train.update(
      rules,
      policy,
      optimiser,
      learner,
      rows,
      contexts,
      num_groups=P,
      micro_rows=6,
      temperature=jnp.float32(0.7),
      key=jax.random.key(0),
      mesh=mesh,
    )
    return learner.opt_state, metrics

  return jax.device_get(run(params, rows))


def alone(policy):
  """The policy whose rows read their contexts themselves."""
  return policy._replace(prefill=None, extend=None)


def agree(actual, expected, tolerance=2e-5):
  for x, y in zip(*map(jax.tree.leaves, (actual, expected)), strict=True):
    x, y = (np.asarray(z, np.float64) for z in (x, y))
    np.testing.assert_allclose(
      x, y, rtol=tolerance, atol=tolerance * max(np.abs(y).max(), 1e-2)
    )


def network(**options):
  return models.policy(networks.config(**options)), networks.network(**options)[
    1
  ]


def adapted():
  base, frozen = network(**networks.EVERYTHING)
  lm = lora.policy(base, frozen, rank=3, targets=("q", "k", "v", "down"))
  params = jax.tree.map(lambda x: x + 0.1, lm.init(jax.random.key(1)))
  return lm, params


# --- one reading of each context


@pytest.mark.parametrize("name", [*OPTIONS, "lora"])
def test_sharing_changes_nothing(name):
  policy, params = adapted() if name == "lora" else network(**OPTIONS[name])
  assert scoring.shares(policy, CONTEXTS, B, T)
  grads, metrics = gradient(policy, params)
  expected, reported = gradient(alone(policy), params)
  agree(grads, expected)
  agree(metrics, reported)
  assert optax.global_norm(expected) > 0.01


def test_sharing_in_bfloat16_is_as_close_as_it_can_be():
  options = networks.EVERYTHING | {"dtype": "bfloat16"}
  policy, params = network(**options)
  exact, _ = network(**networks.EVERYTHING)
  given = {n: x for n, x in ROWS.items() if n != "old_logp"}

  def error(policy):
    grads = gradient(policy, params, given)[0]
    return optax.global_norm(jax.tree.map(jnp.subtract, grads, expected))

  expected = gradient(alone(exact), params, given)[0]
  assert error(policy) < 1.5 * error(alone(policy))
  assert error(policy) < 0.2 * optax.global_norm(expected)


def test_what_is_behind_a_prefix_is_the_whole_text():
  """Hidden states of [context, row], and of the row behind a memory."""
  policy, params = network(**networks.CHOICES)
  length, context = ROWS["length"], ROWS["context"]
  before = CONTEXTS.length[context]
  at = lambda start, n: start[:, None] + jnp.arange(n)[None, :]  # noqa: E731
  here = jnp.where(
    at(0 * before, S) < before[:, None], at(0 * before, S), types.EMPTY
  )
  after = jnp.where(
    at(0 * length, T) < length[:, None], at(before, T), types.EMPTY
  )
  tokens = CONTEXTS.tokens[context]
  both = jnp.concatenate([tokens, ROWS["tokens"]], axis=1)
  whole, _ = policy.apply(params, both, jnp.concatenate([here, after], axis=1))
  first, memory = policy.prefill(params, tokens, here)
  second = policy.extend(params, ROWS["tokens"], after, memory, here)
  inside = np.asarray(after < types.EMPTY)
  np.testing.assert_allclose(
    second[inside], whole[:, S:][inside], rtol=1e-5, atol=1e-5
  )
  inside = np.asarray(here < types.EMPTY)
  np.testing.assert_allclose(
    first[inside], whole[:, :S][inside], rtol=1e-5, atol=1e-5
  )


def test_where_it_pays():
  policy, _ = network()
  # 5 * 12 + 10 * 16 = 220 of 280 tokens; 5 * 12 + 14 * 16 = 284 of 392.
  assert not scoring.shares(policy, CONTEXTS, 10, 16)
  assert scoring.shares(policy, CONTEXTS, 14, 16)
  mesh = parallel.make_mesh(data=2, devices=jax.devices()[:2])
  assert not scoring.shares(policy, CONTEXTS, 14, 16, mesh)
  assert not scoring.shares(alone(policy), CONTEXTS, 14, 16)


def test_keys_that_depend_on_the_whole_text_are_not_shared():
  scaling = models.RopeScaling("dynamic", 2.0, context=8)
  policy, _ = network(rope_scaling=scaling)
  assert policy.prefill is None and policy.extend is None


# --- columns that no row reaches


LONG = 48
# As long, or it would not pay to share them.
TEXTS = types.Contexts(
  tokens=jax.random.randint(jax.random.key(1), (P, LONG), 0, V),
  length=jnp.array([LONG, 1, 20, 30, LONG - 1], jnp.int32),
)
UNEVEN = np.array([40, 20, 2, 17, 3, 16, 30, 4, 16, 5, 9, 6, 48, 8, 7, 1])


@pytest.fixture
def counted(monkeypatch):
  """(policy) -> policy, and the tokens that its functions were called with."""
  seen = dict(apply=0, prefill=0, extend=0)

  def count(name, number):
    seen[name] += number

  def wrap(name, function):
    def call(params, tokens, *args):
      jax.debug.callback(functools.partial(count, name, tokens.size))
      return function(params, tokens, *args)

    return call

  def of(policy):
    for name in seen:
      policy = policy._replace(**{name: wrap(name, getattr(policy, name))})
    return policy

  return of, seen


def test_widths():
  assert scoring.widths(64) == (16, 32, 64)
  assert scoring.widths(1000) == (128, 256, 504, 1000)
  assert scoring.widths(16) == (16,) and scoring.widths(17) == (16, 17)
  place = [int(scoring.narrowest((16, 24, 48), n)) for n in (0, 16, 17, 24, 25)]
  assert place == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("shared", [True, False])
def test_widths_change_nothing(monkeypatch, shared):
  policy, params = network(**networks.EVERYTHING)
  policy = policy if shared else alone(policy)
  rows = columns(UNEVEN, LONG)
  assert scoring.widths(LONG) == (16, 24, 48)
  assert scoring.shares(policy, TEXTS, len(UNEVEN), LONG) == shared
  cut = gradient(policy, params, rows, contexts=TEXTS)
  monkeypatch.setattr(scoring, "widths", lambda T: (T,))
  agree(cut, gradient(policy, params, rows, contexts=TEXTS))


def test_on_a_mesh_too(monkeypatch):
  policy, params = network()
  mesh = parallel.make_mesh(data=2, devices=jax.devices()[:2])
  rows = columns(UNEVEN, LONG)
  cut = gradient(policy, params, rows, mesh=mesh)
  monkeypatch.setattr(scoring, "widths", lambda T: (T,))
  agree(cut, gradient(alone(policy), params, rows))


def test_tokens_that_are_computed(counted):
  """Contexts forward and for their gradient, all in a piece; rows once."""
  of, seen = counted
  policy, params = network()
  gradient(of(policy), params, columns(UNEVEN, LONG), contexts=TEXTS)
  jax.effects_barrier()
  # UNEVEN's rows 0, 6 and 12 are not trained. The others' lengths, sorted:
  # 20 17 16 16 9 8 | 7 6 5 4 3 2 | 1: widths 24, 16 and 16, of 6 rows each.
  assert seen == {
    "apply": 0,
    "prefill": 2 * P * LONG,
    "extend": 6 * (24 + 16 + 16),
  }


def test_tokens_that_are_scored(counted):
  """5 contexts in pieces of 4; all rows, ascending, in pieces of 4."""
  of, seen = counted
  policy, params = network()
  rows = columns(UNEVEN, LONG)
  made = rollouts(rows)

  @functools.partial(jax.jit, static_argnums=0)
  def score(policy, params):
    one = jnp.float32(1)
    scorers = {"old_logp": params}
    return scoring.columns(policy, scorers, made, TEXTS, one, micro_rows=4)[
      "old_logp"
    ]

  logp = score(of(policy), params)
  jax.effects_barrier()
  # 1 2 3 4 | 5 6 7 8 | 9 16 16 17 | 20 30 40 48: widths 16, 16, 24, 48.
  assert seen == {
    "apply": 0,
    "prefill": 8 * LONG,
    "extend": 4 * (16 + 16 + 24 + 48),
  }
  agree(logp, score(alone(policy), params))
  context = rows["context"]
  plain, _ = train.token_logps(
    policy,
    params,
    TEXTS.tokens[context],
    TEXTS.length[context],
    rows["tokens"],
    rows["length"],
    jnp.float32(1),
  )
  agree(logp, plain)


# --- old log-probs that the update makes itself


def test_the_updates_own_log_probs_are_the_old_ones():
  policy, params = network()
  rows = {name: x for name, x in ROWS.items() if name != "old_logp"}
  scored = scoring.columns(
    policy,
    {"old_logp": params},
    rollouts(ROWS),
    CONTEXTS,
    jnp.float32(0.7),
    micro_rows=6,
  )
  agree(
    gradient(policy, params, rows),
    gradient(policy, params, rows | scored),
    tolerance=5e-5,
  )


@pytest.mark.parametrize("changes", [{"epochs": 2}, {"minibatches": 2}])
def test_old_log_probs_that_are_missing(changes):
  policy, params = network()
  rows = {name: x for name, x in ROWS.items() if name != "old_logp"}
  with pytest.raises(ValueError, match="needs old_logp before the update"):
    gradient(policy, params, rows, RULES._replace(**changes))


@pytest.mark.parametrize("minibatches, scored", [(1, []), (2, ["old_logp"])])
def test_the_step_scores_what_the_recipe_says(monkeypatch, minibatches, scored):
  rules = tiny.RECIPES["uniform"](tiny.SIZES)._replace(minibatches=minibatches)
  names, plain = [], scoring.columns

  def columns(policy, scorers, *args, **options):
    names.extend(scorers)
    return plain(policy, scorers, *args, **options)

  monkeypatch.setattr(scoring, "columns", columns)
  state = tiny.state(rules)
  jax.eval_shape(tiny.fused(rules), state, tiny.TASK.data, tiny.SETTINGS)
  assert names == scored
