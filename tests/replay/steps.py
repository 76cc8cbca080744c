"""Steps of a run, in numpy, around any replay method.

A token spells its row's name, (id, step of birth, index, position), so that a
row can be recognised wherever it comes back.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll.types import SCORED, UNSCORABLE, Outcome, Prompts, Rollouts

LENGTH = 3


def tokens_of(ids, born, index):
  """i32[..., LENGTH] of rows."""
  name = (np.asarray(ids) * 100 + born) * 10 + index
  return name[..., None] * 10 + np.arange(LENGTH)


def flat_rows(ids, group, index, step, reward, status) -> tuple:
  """Sampled rows of a step: Rollouts and Outcome in numpy."""
  rows = len(group)
  fill = lambda value: np.full(rows, value, np.int32)  # noqa: E731
  token = lambda value, dtype: np.full((rows, LENGTH), value, dtype)  # noqa: E731
  rollouts = Rollouts(
    group=np.asarray(group, np.int32),
    index=np.asarray(index, np.int32),
    context=np.asarray(group, np.int32),
    born=fill(step),
    round=fill(0),
    given_length=fill(0),
    length=fill(LENGTH),
    valid=np.ones(rows, bool),
    stopped=np.ones(rows, bool),
    tokens=tokens_of(ids, step, index).astype(np.int32),
    origin=token(1, np.int8),
    behaviour_logp=token(-0.5, np.float32),
    entropy=token(0.25, np.float32),
    mask=token(True, bool),
  )
  outcome = Outcome(
    reward=np.where(np.equal(status, SCORED), reward, 0).astype(np.float32),
    status=np.asarray(status, np.int32),
  )
  return rollouts, outcome


def concatenate(*records):
  return jax.tree.map(lambda *xs: np.concatenate(xs), *records)


def prompts_of(ids) -> Prompts:
  ids = jnp.asarray(ids, jnp.int32)
  return Prompts(id=ids, occurrence=jnp.zeros_like(ids), data=())


def fill_step(rng, case, sizes, step, resumed, blocked, carried):
  """Prompts and all rows of a step that has resumed some groups.

  Free places of the step take prompts that are not blocked, one place stays
  empty. New rows: `commit` of a waiting prompt, `pilot` of a new one, some
  unscorable, in random order, with an invalid tail of garbage.
  """
  resumed = np.asarray(resumed)
  ids = np.full(sizes.prompts, -1, np.int64)
  ids[: case.groups] = resumed
  waiting = ids >= 0
  free = np.flatnonzero(~waiting)[:-1]
  fresh = rng.permutation(np.flatnonzero(~np.asarray(blocked)))[: len(free)]
  ids[free[: len(fresh)]] = fresh
  counts = np.where(waiting, case.commit, np.where(ids >= 0, case.pilot, 0))
  first = np.where(waiting, case.pilot, 0)
  group = np.repeat(np.arange(sizes.prompts), counts)
  index = np.concatenate([f + np.arange(n) for f, n in zip(first, counts)])
  unused = sizes.rows - len(group)
  group = np.append(group, np.zeros(unused, int))
  index = np.append(index, np.zeros(unused, int))
  reward = rng.random(sizes.rows) < 0.35 + 0.02 * ids[group]
  status = np.where(rng.random(sizes.rows) < 0.15, UNSCORABLE, SCORED)
  new, scored = flat_rows(ids[group], group, index, step, reward, status)
  valid = np.arange(sizes.rows) < sizes.rows - unused
  new = new.replace(valid=valid)
  order = rng.permutation(sizes.rows)
  new, scored = jax.tree.map(lambda x: x[order], (new, scored))
  rows = concatenate(carried[0], new), concatenate(carried[1], scored)
  rollouts, outcome = jax.tree.map(jnp.asarray, rows)
  return prompts_of(ids), rollouts, outcome, jnp.asarray(waiting)
