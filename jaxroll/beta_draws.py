r"""How are a million Beta draws made exactly, and in bounded work?

A Beta draw is a ratio of Gamma draws, taken as its logit so that neither tail
loses digits:

  Y_a = d_a v_a U_a^(1/a),  d_a = a + 2/3,  v_a = (1 + x_a / (3 sqrt d_a))^3
  log p - log (1 - p) = log Y_a - log Y_b

with x_a, x_b normal and U uniform: d v is a Gamma(a + 1) proposal of
Marsaglia & Tsang ("A simple method for generating gamma variables", 2000),
accepted with probability exp h(x), and the power of U brings a + 1 down to a
(their section 6), for every shape. A rejection loop over all prompts would
run until the last one is accepted. Instead:

1. The pair (x_a, x_b) is accepted as a whole, with exp(h_a + h_b), so that one
   uniform w decides. Given acceptance, w / exp(h_a + h_b) is uniform again and
   is the U of the first Gamma. A proposal costs four words of 32 bits.
2. Between 0 and 9 % of the pairs are rejected, by the shapes (4 % at the
   uniform prior). Those alone are gathered, into a buffer of N / 8, and run
   until all are accepted; a fuller buffer is only emptied more often.

Words come from the counter-based generator of Salmon et al. ("Parallel random
numbers: as easy as 1, 2, 3", 2011) at (key, id, attempt): a prompt's draw
depends on the key, its id and its shapes, on nothing of other prompts.
"""

import chex
import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.random import threefry_2x32

# Rejected pairs are gathered in a buffer of this share of all.
_GATHERED = 8


def draw(alpha, beta, key, *, ids=None):
  """One draw of each Beta(alpha, beta), exact to float32.

  Args:
    alpha, beta: f32[N] > 0.
    key: PRNG key of any kind.
    ids: i32[N], which prompts these are, or None for 0 ... N - 1. A gathered
      part of a task with its ids gets the draws that it gets in the whole.

  Returns: f32[N] in [0, 1].

  >>> one = jnp.ones(3)
  >>> draw(one, one, jax.random.key(0)).shape
  (3,)
  """
  return jax.nn.sigmoid(draw_logit(alpha, beta, key, ids=ids))


def draw_logit(alpha, beta, key, *, ids=None):
  """log p - log (1 - p) of a draw p of each Beta(alpha, beta).

  Args and the randomness: as for `draw`, which is its sigmoid.

  Returns: f32[N], digits in both tails; -inf or inf only where it overflows.

  >>> one = jnp.ones(3)
  >>> draw_logit(one, one, jax.random.key(0)).shape
  (3,)
  """
  alpha, beta = (jnp.asarray(x, jnp.float32) for x in (alpha, beta))
  chex.assert_rank([alpha, beta], 1)
  chex.assert_equal_shape([alpha, beta])
  num = alpha.shape[0]
  if ids is None:
    ids = jnp.arange(num, dtype=jnp.uint32)
  ids = ids.astype(jnp.uint32)
  # Whatever the kind of the caller's key, two words of it.
  key = jax.random.bits(key, (2,), jnp.uint32)
  size = min(num, max(num // _GATHERED, 256))

  def retry(carry):
    """The first `size` that are rejected, until they are accepted."""
    logit, rejected = carry
    (place,) = jnp.nonzero(rejected, size=size, fill_value=num)
    some = place < num
    part = [x[jnp.minimum(place, num - 1)] for x in (alpha, beta, ids)]

    def again(carry):
      attempt, logit, rejected = carry
      new, accepted = _propose(*part, key, attempt)
      logit = jnp.where(rejected & accepted, new, logit)
      return attempt + jnp.uint32(1), logit, rejected & ~accepted

    first = (jnp.uint32(1), jnp.zeros(size, jnp.float32), some)
    _, drawn, _ = lax.while_loop(lambda c: jnp.any(c[2]), again, first)
    logit = logit.at[place].set(drawn, mode="drop")
    return logit, rejected.at[place].set(False, mode="drop")

  logit, accepted = _propose(alpha, beta, ids, key, jnp.uint32(0))
  logit, _ = lax.while_loop(
    lambda carry: jnp.any(carry[1]), retry, (logit, ~accepted)
  )
  return logit


# --- private


def _propose(alpha, beta, ids, key, attempt):
  """A logit of each pair of proposals, and whether the pair is accepted."""
  first, second = _words(key, ids, 2 * attempt)
  decide, boost = _words(key, ids, 2 * attempt + 1)
  a = _gamma(alpha, _normal(first))
  b = _gamma(beta, _normal(second))
  log_decide = _log_uniform(decide)
  log_accept = a[1] + b[1]
  # Given acceptance, uniform in (0, 1) again.
  log_reused = log_decide - log_accept
  logit = a[0] - b[0] + log_reused / alpha - _log_uniform(boost) / beta
  return logit, log_decide <= log_accept


def _gamma(shape, x):
  """Log of a Gamma(shape + 1) proposal, and of its chance of acceptance.

    h = x^2/2 + d (1 - v + log v) = d (3 log(1 + t) - 3 t + 3 t^2/2 - t^3)
      = -3 d (t^4/4 - t^5/5 + t^6/6 - ...),  t = x / (3 sqrt d)

  The second form has no digits left when d is large, and t is small then.
  """
  d = shape + jnp.float32(2 / 3)
  t = x / (3 * jnp.sqrt(d))
  inside = t > -1
  t = jnp.where(inside, t, 0.0)
  log1p = jnp.log1p(t)
  series = jnp.zeros_like(t)
  for k in range(11, 3, -1):
    series = 1 / k - t * series
  near = -3 * series * t**4
  far = 3 * log1p - t * (3 + t * (t - 1.5))
  log_accept = d * jnp.minimum(jnp.where(jnp.abs(t) < 0.25, near, far), 0.0)
  return jnp.log(d) + 3 * log1p, jnp.where(inside, log_accept, -jnp.inf)


def _words(key, ids, counter):
  """Two words of 32 random bits of each id."""
  counts = jnp.concatenate([ids, jnp.full_like(ids, counter)])
  bits = threefry_2x32(key, counts)
  return bits[: ids.shape[0]], bits[ids.shape[0] :]


def _normal(bits):
  """The quantile of the middle of one of 2^24 equal cells."""
  cell = (lax.bitcast_convert_type(bits, jnp.int32) >> 8).astype(jnp.float32)
  return jnp.float32(2**0.5) * lax.erf_inv((cell + 0.5) * 2.0**-23)


def _log_uniform(bits):
  """Log of a uniform of 32 bits, never of 0."""
  return jnp.log((bits.astype(jnp.float32) + 0.5) * 2.0**-32)
