"""Are two generations of the same request the same, up to rounding?

Other slots, schedules and meshes change the order of floating-point sums, so
log-probs agree to a tolerance, and a sampled token may differ where its draw
lies within that tolerance of a boundary. `assert_same_rollouts` holds both
against what is claimed:

  every log-prob of run a's tokens, FORCED through run b's program, is a's;
  at the first token that differs, the two candidates' perturbed log-probs in
  run b are closer to each other than the rounding of both.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import types


def tolerance(policy, params, contexts, rows):
  """2e-6 * max(1, max |logit|) over what the rows' tokens were drawn from."""
  S, T = contexts.tokens.shape[1], rows.tokens.shape[1]
  length = contexts.length[rows.context][:, None]
  before = jnp.arange(S, dtype=jnp.int32)[None, :]
  after = jnp.arange(T, dtype=jnp.int32)[None, :]
  positions = jnp.concatenate(
    [
      jnp.where(before < length, before, types.EMPTY),
      jnp.where(after < rows.length[:, None], after + length, types.EMPTY),
    ],
    axis=1,
  )
  tokens = jnp.concatenate([contexts.tokens[rows.context], rows.tokens], 1)
  hidden, _ = policy.apply(params, tokens, positions)
  logits = policy.unembed(params, hidden)
  real = positions[..., None] < types.EMPTY
  largest = jnp.max(jnp.abs(logits), where=real, initial=1.0)
  return 2e-6 * float(largest)


def force(request, rows):
  """The request that writes the rows' own tokens again."""
  return request.replace(
    given=rows.tokens, given_length=rows.length, limit=rows.length
  )


def assert_same_rollouts(a, b, forced, *, keys, vocab, tolerance) -> int:
  """Asserts that b is a up to rounding; returns how many rows differ.

  Args:
    a, b: Rollouts of one request under two programs.
    forced: Rollouts of `force(request, a)` under b's program.
    keys: keys[R] of the request.
    vocab: V.
    tolerance: of a log-prob, at the sampler's temperature.

  The sampler has no top-k and no top-p: their supports have boundaries of
  their own.
  """
  a, b, forced = jax.device_get((a, b, forced))
  same = ("group", "index", "context", "born", "valid")
  for name in same:
    np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
  at = np.arange(a.tokens.shape[1])[None, :]
  inside = at < a.length[:, None]
  np.testing.assert_array_equal(forced.length, a.length)
  np.testing.assert_array_equal(forced.tokens, a.tokens)
  _close(forced.behaviour_logp, a.behaviour_logp, inside, tolerance)
  differing = (a.tokens != b.tokens).any(axis=1) | (a.length != b.length)
  equal = ~differing
  for name in ("origin", "mask", "given_length", "stopped"):
    np.testing.assert_array_equal(
      getattr(a, name)[equal], getattr(b, name)[equal], name
    )
  _close(a.behaviour_logp, b.behaviour_logp, inside & equal[:, None], tolerance)
  for row in np.flatnonzero(differing):
    _assert_near_tie(row, a, b, forced, keys, vocab, tolerance)
  return int(differing.sum())


def _close(actual, expected, where, tolerance):
  gap = np.abs(np.where(where, actual - expected, 0.0)).max()
  assert gap <= tolerance, f"log-probs differ by {gap} > {tolerance}"


def _assert_near_tie(row, a, b, forced, keys, vocab, tolerance):
  both = min(a.length[row], b.length[row])
  places = np.flatnonzero(a.tokens[row, :both] != b.tokens[row, :both])
  assert places.size, f"row {row} ends elsewhere without another token"
  t = places[0]
  assert a.mask[row, t] and b.mask[row, t], f"row {row}: a given token differs"
  one, other = a.tokens[row, t], b.tokens[row, t]
  key = jax.random.fold_in(keys[row], int(t))
  noise = np.asarray(jax.random.gumbel(key, (vocab,)))
  # How far b's choice leads over a's in run b; in run a it trails.
  lead = (b.behaviour_logp[row, t] + noise[other]) - (
    forced.behaviour_logp[row, t] + noise[one]
  )
  assert -tolerance <= lead <= 2 * tolerance, (
    f"row {row} token {t}: {one} or {other}, {lead} apart: no near-tie"
  )
