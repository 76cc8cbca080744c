"""Tiny policies, and requests to try them on."""

import functools

import jax
import jax.numpy as jnp

from jaxroll import rollout, train, types
from tests.models import tiny
from tests.rollout import rule4

# Shapes of every test here: X contexts, S their columns, T, R rows, V.
X, S, T, R, V = 4, 5, 7, 8, 12

LENGTHS = jnp.array([1, 3, 5, 4], jnp.int32)
CONTEXTS = types.Contexts(
  tokens=jnp.array(
    [[3, 0, 0, 0, 0], [1, 9, 2, 0, 0], [7, 7, 0, 10, 4], [8, 5, 6, 1, 0]],
    jnp.int32,
  ),
  length=LENGTHS,
)
STOP = 9
TEMPERATURE = 0.9


def bigram(vocab=V) -> types.Policy:
  """A model of a user's own: the next token depends on the last one only.

  Its parameters are a table of logits, its hidden state the table's row; it
  keeps no keys and values.
  """

  def init(key):
    return {"table": jax.random.normal(key, (vocab, vocab))}

  def apply(params, tokens, positions, cache=None, column=None):
    hidden = params["table"][tokens]
    if cache is None:
      return hidden, None
    seen = jax.lax.dynamic_update_slice(cache.positions, positions, (0, column))
    return hidden, cache._replace(positions=seen)

  def unembed(params, hidden):
    del params
    return hidden

  def init_cache(rows, columns):
    empty = jnp.full((rows, columns), types.EMPTY, jnp.int32)
    return types.Cache((), (), empty)

  return types.Policy(init, apply, unembed, init_cache)


def counting(vocab=V):
  """A table by which v is followed by v + 1, and the last token by 0."""
  after = (jnp.arange(vocab) + 1) % vocab
  return {"table": 10.0 * jax.nn.one_hot(after, vocab, dtype=jnp.float32)}


@functools.cache
def transformer():
  """A transformer whose distributions are far from uniform, and params."""
  return tiny.network(vocab_size=V)


# Given tokens of every kind: none, some, as many as the row may hold.
GIVEN = jax.random.randint(jax.random.key(11), (R, T), 0, V, jnp.int32)
GIVEN_LENGTH = jnp.array([0, 2, 7, 3, 1, 0, 4, 2], jnp.int32)
LIMIT = jnp.array([7, 5, 7, 3, 7, 0, 4, 6], jnp.int32)


def request(limit=T, given=None, given_length=0, valid=True) -> types.Request:
  """Two rows for each context; `given` has T columns if there is one."""
  row = jnp.arange(R, dtype=jnp.int32)

  def fill(value, dtype=jnp.int32):
    return jnp.broadcast_to(jnp.asarray(value, dtype), (R,))

  return types.Request(
    group=row // 2,
    index=row % 2,
    context=row // 2,
    born=fill(3),
    limit=fill(limit),
    given=jnp.zeros((R, T), jnp.int32) if given is None else given,
    given_length=fill(given_length),
    row=row,
    valid=fill(valid, bool),
  )


def mixed_request() -> types.Request:
  """Rows with given tokens and limits of their own."""
  return request(LIMIT, GIVEN, GIVEN_LENGTH)


def keys_of(asked: types.Request, seed=0):
  """Keys of the rows; prompt p of the step is number 40 + p of the task."""
  return rollout.row_keys(
    jax.random.key(seed),
    asked.born,
    40 + asked.group,
    jnp.zeros_like(asked.group),
    asked.index,
  )


@functools.cache
def jitted(policy, slots, **options):
  """`rollout.generate` compiled once for each setting of static things."""
  return jax.jit(
    functools.partial(
      rollout.generate, policy, slots=slots, max_length=T, **options
    )
  )


def sample(
  asked, *, temperature=TEMPERATURE, stops=(STOP,), slots=3, seed=0, **options
):
  """Rollouts of the transformer."""
  policy, params = transformer()
  rows, _ = jitted(policy, slots, **options)(
    params,
    CONTEXTS,
    asked,
    keys_of(asked, seed),
    rollout.sampler(temperature),
    rollout.stops(stops),
  )
  return rows


def written(rows):
  """bool[R, T], before each row's end."""
  return jnp.arange(T)[None, :] < rows.length[:, None]


def score(rows, temperature=TEMPERATURE):
  """What the trainer says of the rows' tokens: logp, entropy f32[R, T]."""
  policy, params = transformer()
  return _token_logps(
    policy,
    params,
    CONTEXTS.tokens[rows.context],
    CONTEXTS.length[rows.context],
    rows.tokens,
    rows.length,
    jnp.float32(temperature),
  )


_token_logps = jax.jit(train.token_logps, static_argnums=0)


def tolerance(rows):
  """Of the transformer's log-probs of these rows; see `rule4`."""
  return rule4.tolerance(*transformer(), CONTEXTS, rows)
