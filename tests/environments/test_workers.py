"""Verifiers in worker processes: no answer stalls or ends anything."""

import functools
import os
import signal
import time

import jax
import numpy as np
import pytest

from jaxroll import environments, recipes, train, types
from jaxroll.environments import answers, vocabulary, workers
from tests.environments import cases, scorers
from tests.train import tiny

FAILING = {
  "sleep": "time limit",
  "spin": "time limit",
  "memory": "exception",
  "exit": "crash",
  "segfault": "crash",
  "killed": "crash",
  "forge": "crash",
  "raise": "exception",
  "sys.exit": "exception",
  "string": "value",
  "nan": "value",
  "huge": "value",
}


def requests(completions):
  return [("prompt", completion, "a") for completion in completions]


@pytest.fixture(scope="module")
def pool():
  made = workers.Pool(scorers.by_completion, workers=2, time_limit=1.0)
  with made:
    yield made


def test_scores_come_in_the_order_of_the_requests():
  with workers.Pool(scorers.length, workers=3) as pool:
    lengths = [7, 0, 3, 12, 100_000, 1, 5, 2]
    assert pool.score([("", "x" * n, None) for n in lengths]) == lengths
    assert pool.score([]) == []
  with pytest.raises(ValueError, match="closed"):
    pool.score([])


@pytest.mark.parametrize("completion, kind", FAILING.items())
def test_a_failing_row_is_none_and_the_others_are_scored(
  pool, completion, kind
):
  before = pool.failures[kind]
  scores = pool.score(requests(["a", completion, "b", "a"]))
  assert scores == [1.0, None, 0.0, 1.0]
  assert pool.failures[kind] == before + 1
  # The next call has all workers again.
  assert pool.score(requests(["a"] * 4)) == [1.0] * 4


def test_what_the_scorer_prints_is_no_answer(pool):
  assert pool.score(requests(["print", "a"])) == [0.0, 1.0]


def test_time_is_bounded_where_every_row_hangs(pool):
  start = time.monotonic()
  assert pool.score(requests(["sleep"] * 5)) == [None] * 5
  # (ceil(5 / 2) + 1) * 1 s, and the time to end and start processes.
  assert time.monotonic() - start < 4 + 1


def test_one_example_of_each_kind_is_logged(monkeypatch):
  lines = []
  monkeypatch.setattr(
    workers.logging,
    "warning",
    lambda text, *values: lines.append(text % values),
  )
  with workers.Pool(scorers.by_completion, workers=1, name="mine") as pool:
    pool.score(requests(["raise", "raise", "string", "raise", "exit"]))
  assert len(lines) == 3
  assert pool.failures == {"exception": 3, "value": 1, "crash": 1}
  for part in ("mine", "'prompt'", "'raise'", "KeyError", "exception"):
    assert part in lines[0]
  assert "exit code 0" in lines[2]


def test_a_worker_killed_between_calls_is_replaced(pool):
  for worker in pool._workers:
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
  assert pool.score(requests(["a"] * 4)) == [1.0] * 4


def test_no_process_is_left():
  pool = workers.Pool(scorers.by_completion, workers=2, time_limit=0.5)
  pool.score(requests(["sleep", "a", "exit"]))
  processes = [worker.process for worker in pool._workers]
  del pool
  assert all(process.poll() is not None for process in processes)


def test_a_request_that_cannot_be_sent():
  with workers.Pool(scorers.by_completion, workers=1) as pool:
    scores = pool.score([("", "a", lambda: 0), ("", "a", "a")])
  assert scores == [None, 1.0]
  assert pool.failures == {"request": 1}


def test_workers_do_without_jax():
  with workers.Pool(scorers.imported_jax, workers=1) as pool:
    assert pool.score([("", "", "")]) == [0.0]
  with workers.Pool(answers.scorer("numeric"), workers=1) as pool:
    assert pool.score([("", "so 1,000", "1000")]) == [1.0]


@pytest.mark.parametrize(
  "scorer, arguments, message",
  [
    (scorers.length, {"workers": 0}, "workers=0: must be an integer >= 1"),
    (scorers.length, {"time_limit": 0}, "time_limit=0: must be finite"),
    (scorers.length, {"memory_limit": 1000}, "memory_limit=1000"),
    (lambda *_: 0, {}, "define it in a module"),
    (functools.partial(scorers.length, 1, x=lambda: 0), {}, "define it in"),
  ],
)
def test_bad_arguments(scorer, arguments, message):
  with pytest.raises(ValueError, match=message):
    workers.Pool(scorer, **arguments)


def test_a_scorer_of_the_main_module_is_refused(monkeypatch):
  monkeypatch.setattr(scorers.length, "__module__", "__main__")
  import __main__

  monkeypatch.setattr(__main__, "length", scorers.length, raising=False)
  with pytest.raises(ValueError, match="defined in __main__"):
    workers.Pool(scorers.length)


def test_a_scorer_that_does_not_load_is_refused():
  with pytest.raises(ValueError, match="(?s)could not load it.*not unpickled"):
    workers.Pool(scorers.Unloadable())


# --- through a task, and through training

EXAMPLES = [(f"{n}=", str(n)) for n in range(8)]


def test_a_task_with_workers_scores_as_one_without():
  rows = cases.written(
    ["0|", "2|", "", "3", "4 4|", "=|", "6|", "11|"], 6, group=range(8)
  )
  outcomes = []
  for arguments in ({}, {"workers": 2}):
    task = environments.host_task(
      "test",
      EXAMPLES,
      answers.scorer("numeric"),
      response_length=6,
      **arguments,
    )
    prompts, _ = task.prompts(task.data, np.arange(8, dtype=np.int32))
    outcomes.append(cases.verifier(task)(prompts, rows))
  assert outcomes[0].reward.tolist() == [1, 0, 0, 1, 1, 0, 1, 0]
  for x, y in zip(*map(jax.tree.leaves, outcomes)):
    np.testing.assert_array_equal(x, y)


def test_what_needs_workers_gets_them():
  with pytest.raises(ValueError, match="workers=0.*set workers to 1"):
    environments.host_task(
      "test", EXAMPLES, answers.scorer("math_verify"), response_length=6
    )
  with pytest.raises(ValueError, match="cannot be sent to workers"):
    environments.host_task(
      "test",
      [("1=", lambda: 0)],
      scorers.length,
      response_length=6,
      workers=1,
    )


@pytest.fixture(scope="module")
def training():
  """(verify) -> output of a hosted step that is compiled once."""
  rules = recipes.uniform(tiny.SIZES)
  verify = None
  task = tiny.HOST_TASK._replace(verify=lambda *args: verify(*args))
  step = train.hosted(tiny.make(rules, task=task), task)

  def run(given):
    nonlocal verify
    verify = given
    state = tiny.state(rules)
    after, output = step(tiny.copy(state), tiny.TASK.data, tiny.SETTINGS)
    return state, after, output

  return run


@pytest.mark.parametrize(
  "scorer",
  [scorers.sleeps, scorers.allocates, scorers.exits, scorers.returns_text],
)
def test_training_goes_on(training, scorer):
  # Numbers as prompts: the texts of the tiny task's own problems.
  texts = [
    vocabulary.decode(row[1:length])
    for row, length in zip(tiny.TASK.data.prompt, tiny.TASK.data.prompt_length)
  ]
  task = environments.host_task(
    "hostile",
    [(text, "") for text in texts],
    scorer,
    response_length=6,
    workers=4,
    time_limit=0.3,
  )
  start = time.monotonic()
  before, after, output = training(task.verify)
  assert time.monotonic() - start < 120
  assert output.metrics["rollouts"] == 32
  assert output.metrics["unscorable"] == 32
  assert int(after.step) == int(before.step) + 1
  # No evidence: nothing is believed or learned from it.
  np.testing.assert_array_equal(after.stats.alpha, before.stats.alpha)
  assert tiny.same(after.learners, before.learners)


def test_training_learns_from_the_rows_that_are_scored(training):
  task = environments.host_task(
    "parity",
    [(f"{n}=", "") for n in range(tiny.SIZES.num_ids)],
    scorers.some_hang,
    response_length=6,
    workers=4,
    time_limit=0.5,
  )
  _, after, output = training(task.verify)
  unscorable = int(output.metrics["unscorable"])
  assert 0 < unscorable < 32
  # Rows that began with 0, 1 or 2.
  first = output.rollouts.tokens[:, 0] - vocabulary.ZERO
  hangs = np.asarray((first >= 0) & (first <= 2))
  np.testing.assert_array_equal(
    output.outcome.status, np.where(hangs, types.UNSCORABLE, types.SCORED)
  )
  assert float(after.stats.weight.sum()) == 32 - unscorable
