"""The buffer of Pilot-Commit against a list of dicts."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import replay
from jaxroll.types import ABORTED, SCORED, UNSCORABLE
from tests.replay import steps
from tests.replay.cases import SIZES, Case


class Reference:
  """A slow transcription: a list of places, each None or an entry."""

  def __init__(self, case, capacity, max_age):
    self.places, self.evicted = [None] * capacity, set()
    self.case, self.max_age = case, max_age

  def resume(self, step):
    for i, entry in enumerate(self.places):
      if entry and step - entry["born"] > self.max_age:
        self.places[i] = None
    waiting = [i for i, entry in enumerate(self.places) if entry]
    key = lambda i: (-self.places[i]["std"], -self.places[i]["born"], i)  # noqa: E731
    taken = sorted(waiting, key=key)[: self.case.groups]
    ids = [self.places[i]["id"] for i in taken]
    for i in taken:
      self.places[i] = None
    return ids + [-1] * (self.case.groups - len(ids))

  def add(self, prompts, rollouts, outcome, waiting, step):
    for group, prompt in enumerate(prompts.id.tolist()):
      rewards = [
        float(outcome.reward[row])
        for row in range(len(rollouts.group))
        if rollouts.valid[row]
        and rollouts.group[row] == group
        and rollouts.round[row] >= 0
        and outcome.status[row] == SCORED
      ]
      if prompt < 0 or waiting[group] or not rewards:
        continue
      right, total = sum(rewards), len(rewards)
      if right == total:
        self.evicted.add(prompt)
      if 8 * right >= total and 4 * right <= 3 * total:
        variance = right * (total - right) / total**2
        entry = {"id": prompt, "born": step, "std": math.sqrt(variance)}
        self.places[self.free_place()] = entry

  def free_place(self):
    free = [i for i, entry in enumerate(self.places) if not entry]
    oldest = lambda i: (self.places[i]["born"], i)  # noqa: E731
    return free[0] if free else min(range(len(self.places)), key=oldest)


@pytest.mark.parametrize("capacity, max_age", [(4, 8), (None, 1)])
def test_buffer_against_a_list(capacity, max_age):
  method = replay.pilots(groups=1, pilot=3, max_age=max_age, capacity=capacity)
  case = Case(method, groups=1, pilot=3, commit=5)
  reference = Reference(case, capacity or SIZES.prompts * max_age, max_age)
  resume, add = jax.jit(method.resume), jax.jit(method.add)
  rng = np.random.default_rng(0)
  state = method.init(SIZES, key=jax.random.key(0))
  replaced = dropped = 0
  for step in range(60):
    held = [entry for entry in reference.places if entry]
    dropped += sum(step - entry["born"] > max_age for entry in held)
    ids, rollouts, outcome, state = resume(state, step=jnp.int32(step))
    assert ids.tolist() == reference.resume(step)
    waiting_ids = {entry["id"] for entry in reference.places if entry}
    blocked = np.flatnonzero(method.blocked(state)).tolist()
    now = {i for i in ids.tolist() if i >= 0}
    assert set(blocked) == waiting_ids | now | reference.evicted
    batch = steps.fill_step(
      rng, case, SIZES, step, ids, method.blocked(state), (rollouts, outcome)
    )
    state = add(state, *batch, step=jnp.int32(step))
    kept = sum(1 for entry in reference.places if entry)
    reference.add(*jax.tree.map(np.asarray, batch), step)
    after = sum(
      1 for entry in reference.places if entry and entry["born"] < step
    )
    replaced += kept - after
    places = [
      (e["id"], e["born"]) if e else (-1, None) for e in reference.places
    ]
    assert state.ids.tolist() == [place[0] for place in places]
    for i, (prompt, born) in enumerate(places):
      assert prompt < 0 or int(state.born[i]) == born
    # Every solved prompt leaves the 16, so begin again before few are left.
    if len(reference.evicted) > 4:
      reference.evicted.clear()
      state = state.replace(evicted=jnp.zeros_like(state.evicted))
  # The run met what it is to test: full buffers, or entries grown old.
  assert replaced > 3 if capacity else dropped > 3


def _add_groups(
  method, groups, *, ids=None, status=None, waiting=None, carried=(), step=0
):
  """A state after one step whose groups have these pilot rewards."""
  ids = np.arange(4) if ids is None else np.asarray(ids)
  group = np.repeat(np.arange(4), 2)
  index = np.tile(np.arange(2), 4)
  status = np.zeros(8, int) if status is None else np.ravel(status)
  rows = steps.flat_rows(
    ids[group], group, index, step, np.ravel(groups), status
  )
  rollouts, outcome = jax.tree.map(jnp.asarray, rows)
  number = jnp.where(np.isin(group, carried), -1, 0).astype(jnp.int32)
  rollouts = rollouts.replace(round=number)
  waiting = jnp.asarray(np.zeros(4, bool) if waiting is None else waiting)
  state = method.init(SIZES, key=jax.random.key(0))
  return method.add(
    state, steps.prompts_of(ids), rollouts, outcome, waiting, step=step
  )


def test_triage_of_stored_groups():
  method = replay.pilots(groups=2, pilot=2)
  state = _add_groups(method, [[1, 0], [1, 1], [0, 0], [0, 1]])
  assert state.ids[:3].tolist() == [0, 3, -1]
  assert state.mean[:2].tolist() == [0.5, 0.5]
  assert state.std[:2].tolist() == [0.5, 0.5]
  assert np.flatnonzero(state.evicted).tolist() == [1]
  assert np.flatnonzero(method.blocked(state)).tolist() == [0, 1, 3]


def test_only_scored_pilots_are_judged():
  # Group 0: one of two scored, right: solved. Group 1: none scored: neither
  # stored nor evicted. Group 2: one scored, wrong: deferred. Group 3: both.
  method = replay.pilots(groups=2, pilot=2)
  state = _add_groups(
    method,
    [[1, 0], [1, 1], [1, 0], [1, 0]],
    status=[
      [SCORED, UNSCORABLE],
      [ABORTED, UNSCORABLE],
      [ABORTED, SCORED],
      [SCORED, SCORED],
    ],
  )
  assert state.ids[:2].tolist() == [3, -1]
  assert np.flatnonzero(state.evicted).tolist() == [0]


def test_committed_and_empty_groups_are_not_judged():
  method = replay.pilots(groups=2, pilot=2)
  state = _add_groups(
    method,
    [[1, 0], [1, 1], [1, 1], [1, 0]],
    ids=[5, 6, -1, 7],
    waiting=[True, True, False, False],
  )
  assert state.ids[:2].tolist() == [7, -1]
  assert not state.evicted.any()


def test_carried_rows_are_no_pilots():
  method = replay.pilots(groups=2, pilot=2)
  state = _add_groups(method, [[1, 0], [1, 1], [1, 0], [1, 1]], carried=[0, 1])
  assert state.ids[:2].tolist() == [2, -1]
  assert np.flatnonzero(state.evicted).tolist() == [3]


def test_entries_leave_when_older_than_max_age():
  method = replay.pilots(groups=2, pilot=2, max_age=3)
  state = _add_groups(method, [[1, 0]] + [[0, 0]] * 3, step=5)
  assert method.resume(state, step=8)[0].tolist() == [0, -1]
  ids, rollouts, _, state = method.resume(state, step=9)
  assert ids.tolist() == [-1, -1]
  assert not rollouts.valid.any() and not rollouts.tokens.any()
  assert not method.blocked(state).any()


def test_solve_above_one_evicts_nothing():
  method = replay.pilots(groups=2, pilot=2, solve=math.inf)
  assert not _add_groups(method, [[1, 1]] * 4).evicted.any()


@pytest.mark.parametrize(
  "kwargs, words",
  [
    ({"groups": 0}, "groups=0 must be >= 1"),
    ({"groups": 2, "pilot": 0}, "pilot=0 must be >= 1"),
    ({"groups": 2, "max_age": 0}, "max_age=0 must be >= 1"),
    ({"groups": 2, "low": 0.6, "up": 0.5}, "low=0.6, up=0.5"),
    ({"groups": 2, "low": -0.1}, "low=-0.1"),
  ],
)
def test_bad_numbers_are_refused(kwargs, words):
  with pytest.raises(ValueError, match=words):
    replay.pilots(**kwargs)


def test_sizes_that_do_not_suit_are_refused():
  key = jax.random.key(0)
  with pytest.raises(ValueError, match="capacity=3 < P=4"):
    replay.pilots(groups=2, capacity=3).init(SIZES, key=key)
  with pytest.raises(ValueError, match="groups=5 > P=4"):
    replay.pilots(groups=5).init(SIZES, key=key)
