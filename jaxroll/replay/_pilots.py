"""How do a useful prompt's pilots wait for its commit?

Pilots of a step are sorted by their mean reward (`_triage`); the useful ones
wait in a buffer. Each later step takes up to W of them, highest std first,
then newest, and trains on pilots and commits as one group. Entries older than
`max_age` steps are dropped.

Pilot-Commit (2026), arXiv:2605.26606.
"""

import functools

import chex
import jax
import jax.numpy as jnp

from jaxroll import numerics
from jaxroll.replay import _triage
from jaxroll.replay._buffer import Buffer, empty
from jaxroll.types import (
  SCORED,
  UNSCORABLE,
  Outcome,
  Prompts,
  Replay,
  Rollouts,
  Sizes,
)


def pilots(
  *,
  groups: int,
  pilot: int = 4,
  low: float = 0.125,
  up: float = 0.25,
  solve: float = 1.0,
  max_age: int = 4,
  capacity: int | None = None,
) -> Replay:
  """The buffer of Pilot-Commit; goes with `allocate.pilot_commit`.

  Args:
    groups: W >= 1, most groups resumed in a step, <= P.
    pilot: rows of a new prompt's group, >= 1.
    low: least mean reward of useful pilots.
    up: 1 - up is their largest; low + up <= 1.
    solve: least mean of a solved prompt; above 1 nothing is evicted.
    max_age: most steps between pilots and commit, >= 1.
    capacity: C >= P, groups that may wait; memory is about
      14 C pilot T bytes. None takes max_age P: then nothing is replaced that
      a later step could resume.

  Returns:
    A `Replay`. Rewards are taken as they stand, in [0, 1]; a group is judged
    by its scored pilots and not stored without one.

  Raises:
    ValueError: where a number is out of range; from `init` and `waiting`,
      where groups or capacity do not suit the run's P.

  Example:
    >>> sizes = Sizes(num_ids=8, prompts=4, rows=24, prompt_length=2,
    ...               response_length=3)
    >>> replay = pilots(groups=2)
    >>> replay.waiting(sizes)
    (2, 8)
    >>> state = replay.init(sizes, key=jax.random.key(0))
    >>> ids, rollouts, outcome, state = replay.resume(state, step=0)
    >>> ids.tolist(), rollouts.tokens.shape
    ([-1, -1], (8, 3))

  Note:
    The paper collects rounds until B kept groups are there and then trains;
    here a step trains on the groups it resumed, so that its shapes are
    static. A commit comes a step after its pilots at the earliest. Where the
    buffer is full, free places are used first and then the oldest entries
    are replaced: derived here, the source's buffer never fills. Defaults of
    32 or 16 pilots in the paper; of 4 here, as in `allocate.pilot_commit`.

  Reference:
    Pilot-Commit, 2026, arXiv:2605.26606.
  """
  for name, value in (
    ("groups", groups),
    ("pilot", pilot),
    ("max_age", max_age),
  ):
    if value < 1:
      raise ValueError(f"pilots: {name}={value} must be >= 1")
  if not (low >= 0 and up >= 0 and low + up <= 1):
    raise ValueError(
      f"pilots: low={low}, up={up} must be >= 0 with low + up <= 1, or no "
      "mean is kept"
    )

  def waiting(sizes: Sizes) -> tuple[int, int]:
    if groups > sizes.prompts:
      raise ValueError(
        f"pilots: groups={groups} > P={sizes.prompts}: lower groups or raise "
        "the prompts of a step"
      )
    return groups, groups * pilot

  def init(sizes: Sizes, *, key) -> Buffer:
    del key
    places = max_age * sizes.prompts if capacity is None else capacity
    if places < sizes.prompts:
      raise ValueError(
        f"pilots: capacity={places} < P={sizes.prompts}: a step may keep all "
        "its pilots, raise capacity"
      )
    waiting(sizes)
    return empty(sizes, groups, places, pilot)

  return Replay(
    init=init,
    waiting=waiting,
    blocked=_blocked,
    resume=functools.partial(_resume, max_age=max_age),
    add=functools.partial(_add, low=low, up=up, solve=solve),
  )


def _blocked(state: Buffer) -> jax.Array:
  """Solved prompts, and those that wait or have just been resumed."""
  ids = jnp.concatenate([state.ids, state.resumed])
  return _mark(state.evicted, ids, ids >= 0)


def _resume(state: Buffer, *, step, max_age: int):
  """Drops old entries and takes the W most informative ones."""
  groups, pilot = state.resumed.shape[0], state.outcome.reward.shape[1]
  fresh = (state.ids >= 0) & (step - state.born <= max_age)
  place = _triage.commit_order(state.std, state.born, fresh, groups)
  found = fresh[place]
  ids = jnp.where(found, state.ids[place], -1)

  def rows(stored):
    taken = _zero_unless(found, stored[place])
    return taken.reshape((groups * pilot, *stored.shape[2:]))

  # The resumed prompts stand first in the step, and so do their contexts.
  group = jnp.repeat(jnp.arange(groups, dtype=jnp.int32), pilot)
  rollouts = jax.tree.map(rows, state.rollouts).replace(
    group=group, context=group, round=jnp.full_like(group, -1)
  )
  outcome = jax.tree.map(rows, state.outcome)
  # A row that does not exist has no score, also for who reads status alone.
  status = jnp.where(rollouts.valid, outcome.status, UNSCORABLE)
  kept = fresh.at[place].set(False)
  state = state.replace(
    ids=jnp.where(kept, state.ids, -1),
    born=jnp.where(kept, state.born, -1),
    resumed=ids,
  )
  return ids, rollouts, outcome.replace(status=status), state


def _add(
  state: Buffer,
  prompts: Prompts,
  rollouts: Rollouts,
  outcome: Outcome,
  waiting: jax.Array,
  *,
  step,
  low: float,
  up: float,
  solve: float,
) -> Buffer:
  """Sorts the step's pilots and stores the useful ones."""
  chex.assert_equal_shape([prompts.id, waiting])
  num_prompts = prompts.id.shape[0]
  capacity, pilot = state.outcome.reward.shape
  if num_prompts > capacity:
    raise ValueError(
      f"pilots: P={num_prompts} > capacity={capacity}: raise capacity"
    )
  row, found = _find(rollouts, num_prompts, pilot)
  scored = found & (outcome.status[row] == SCORED)
  mean, std = _moments(outcome.reward[row], scored)
  code, solved = _triage.triage(mean, low=low, up=up, solve=solve)
  judged = (prompts.id >= 0) & ~waiting & jnp.any(scored, axis=1)
  keep = judged & (code == _triage.KEPT)

  # Free places first, then the oldest; the k-th kept group takes the k-th.
  order = jnp.argsort(numerics.rank_by(state.ids < 0, -state.born))
  nth = jnp.cumsum(keep.astype(jnp.int32)) - 1
  place = jnp.where(keep, order[jnp.maximum(nth, 0)], capacity)

  def put(stored, new):
    return stored.at[place].set(new, mode="drop")

  def put_rows(stored, flat):
    return put(stored, _zero_unless(found, flat[row]))

  return state.replace(
    ids=put(state.ids, prompts.id),
    mean=put(state.mean, mean),
    std=put(state.std, std),
    born=put(state.born, step),
    evicted=_mark(state.evicted, prompts.id, judged & solved),
    resumed=jnp.full_like(state.resumed, -1),
    rollouts=jax.tree.map(put_rows, state.rollouts, rollouts),
    outcome=jax.tree.map(put_rows, state.outcome, outcome),
  )


def _find(rollouts: Rollouts, num_prompts: int, pilot: int):
  """Where each group's pilots of this step stand: row, found [P, pilot]."""
  total = rollouts.group.shape[0]
  ok = rollouts.valid & (rollouts.round >= 0)
  group = jnp.where(ok, rollouts.group, num_prompts)
  place = jnp.full((num_prompts, pilot), total, jnp.int32)
  # Commits have an index >= pilot and drop out like rows that do not count.
  place = place.at[group, rollouts.index].set(
    jnp.arange(total, dtype=jnp.int32), mode="drop"
  )
  return jnp.minimum(place, total - 1), place < total


def _moments(reward: jax.Array, scored: jax.Array):
  """Mean and std (ddof 0) of each group's scored pilots, f32[P]."""
  # Var = E[(x - y)^2] / 2 over pairs of pilots: sums of integers for rewards of
  # 0 and 1, so that 1 of 3 and 2 of 3 right tie exactly.
  gap = reward[:, :, None] - reward[:, None, :]
  pair = scored[:, :, None] & scored[:, None, :]
  variance = numerics.masked_mean(jnp.square(gap), pair, axis=(1, 2)) / 2
  return numerics.masked_mean(reward, scored, axis=1), jnp.sqrt(variance)


def _mark(flags: jax.Array, ids: jax.Array, where: jax.Array) -> jax.Array:
  """bool[N] with True at those ids."""
  ids = jnp.where(where, ids, flags.shape[0])
  return flags.at[ids].set(True, mode="drop")


def _zero_unless(keep: jax.Array, x: jax.Array) -> jax.Array:
  """x where `keep`, which has x's leading axes; 0 elsewhere."""
  keep = keep.reshape(keep.shape + (1,) * (x.ndim - keep.ndim))
  return jnp.where(keep, x, jnp.zeros_like(x))
