"""Host tasks: a scorer may fail in any way, the run goes on."""

import decimal
import sys

import jax
import numpy as np
import pytest
from absl import logging

from jaxroll import environments, types
from jaxroll.environments import vocabulary
from tests.environments import cases

EXAMPLES = [(f"{n}=", n) for n in range(8)]


def verify(scorer, texts=("1|",) * 8, examples=EXAMPLES, **arguments):
  task = environments.host_task(
    "test", examples, scorer, response_length=6, **arguments
  )
  ids = np.arange(8, dtype=np.int32)
  prompts, _ = task.prompts(task.data, ids)
  rows = cases.written(texts, 6, group=ids)
  return cases.verifier(task)(prompts, rows)


def test_one_raising_row_of_eight_is_unscorable():
  outcome = verify(lambda prompt, completion, answer: 6 / (answer - 3))
  expected = np.full(8, types.SCORED)
  expected[3] = types.UNSCORABLE
  np.testing.assert_array_equal(outcome.status, expected)
  np.testing.assert_allclose(
    outcome.reward, [-2, -3, -6, 0, 6, 3, 2, 1.5], rtol=1e-6
  )
  assert outcome.reward.dtype == np.float32
  assert outcome.status.dtype == np.int32


@pytest.mark.parametrize(
  "value",
  [
    None,
    float("nan"),
    float("inf"),
    -float("inf"),
    1e300,  # not finite in fp32
    10**400,
    "1",
    1j,
    [1.0],
    np.ones(1),
    [1, [2]],
    decimal.Decimal(1),
    b"1",
  ],
  ids=repr,
)
def test_results_that_are_no_number_are_unscorable(value):
  outcome = verify(lambda *_: value)
  assert not outcome.reward.any()
  assert (outcome.status == types.UNSCORABLE).all()


@pytest.mark.parametrize(
  "value, reward",
  [
    (True, 1),
    (0.25, 0.25),
    (-2, -2),
    (np.bool_(False), 0),
    (np.float64(0.5), 0.5),
    (np.int64(3), 3),
    (np.array(0.75), 0.75),
    (np.float16(0.5), 0.5),
  ],
)
def test_numbers_are_rewards(value, reward):
  outcome = verify(lambda *_: value)
  assert outcome.reward.tolist() == [reward] * 8
  assert (outcome.status == types.SCORED).all()


def test_jax_scalars_are_rewards():
  outcome = verify(lambda *_: jax.numpy.float32(0.5))
  assert outcome.reward.tolist() == [0.5] * 8


@pytest.mark.parametrize(
  "error", [ValueError, RecursionError, MemoryError, SystemExit, StopIteration]
)
def test_no_error_of_the_scorer_ends_the_run(error):
  def scorer(*_):
    raise error("no")

  assert (verify(scorer).status == types.UNSCORABLE).all()
  assert (verify(lambda *_: sys.exit()).status == types.UNSCORABLE).all()


def test_the_user_may_interrupt():
  def scorer(*_):
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    verify(scorer)


def test_the_first_failure_is_logged_with_its_text(monkeypatch):
  lines = []
  monkeypatch.setattr(
    logging, "warning", lambda text, *values: lines.append(text % values)
  )
  verify(
    lambda prompt, completion, answer: int(completion),
    texts=["1|", "2|", "+*|", "-|", "5|", "|", "7|", "8|"],
  )
  assert len(lines) == 1
  for part in ("test", "'2='", "'+*'", "answer 2", "ValueError"):
    assert part in lines[0]
  verify(lambda *_: None)  # Another task logs its own.
  assert len(lines) == 2


def test_what_the_scorer_sees():
  seen = []
  verify(
    lambda *arguments: seen.append(arguments) or 0,
    texts=["12|", "1234|", "123456", "|", "", "5", "6 6|", "7=7|"],
  )
  assert seen == [
    ("0=", "12", 0),
    ("1=", "1234", 1),
    ("2=", "123456", 2),
    ("3=", "", 3),
    ("4=", "", 4),
    ("5=", "5", 5),
    ("6=", "6 6", 6),
    ("7=", "7=7", 7),
  ]


def test_special_tokens_are_written_out():
  seen = []
  task = environments.host_task(
    "test", EXAMPLES, lambda *x: seen.append(x[1]) or 0, response_length=6
  )
  prompts, _ = task.prompts(task.data, np.zeros(1, np.int32))
  digit = vocabulary.ZERO + 1
  stop, start = vocabulary.STOP, vocabulary.START
  tokens = [
    [digit, vocabulary.PAD, digit, stop, 0, 0],
    [digit, stop, start, stop, 0, 0],
    [digit, stop, 0, 0, 0, 0],  # ended by its limit, after a stop token
    [digit, digit, 0, 0, 0, 0],  # ended by a rule, not by a stop token
    [77, stop, 0, 0, 0, 0],  # no token of this vocabulary
  ]
  rows = cases.rollouts(
    tokens,
    [4, 4, 2, 2, 2],
    group=[0] * 5,
    stopped=[True, True, False, True, True],
  )
  cases.verifier(task)(prompts, rows)
  assert seen == ["1<pad>1", "1<stop><start>", "1<stop>", "11", "<77>"]


def test_rows_of_an_empty_slot_are_not_scored():
  def scorer(*_):
    raise AssertionError("called")

  task = environments.host_task("test", EXAMPLES, scorer, response_length=6)
  prompts, _ = task.prompts(task.data, np.full(8, -1, np.int32))
  rows = cases.written(["1|"] * 8, 6, group=range(8))
  outcome = cases.verifier(task)(prompts, rows)
  assert (outcome.status == types.ABORTED).all()


def test_without_solutions_there_are_none():
  task = environments.host_task(
    "test", EXAMPLES, lambda *_: 0, response_length=6
  )
  assert task.solutions is None
  assert not task.jittable


def test_another_vocabulary():
  letters = vocabulary.characters("abc")
  task = environments.host_task(
    "test", [("ab", 0)], lambda *_: 0, response_length=6, vocabulary=letters
  )
  assert task.vocab_size == 6
  assert task.data.prompt.tolist() == [[vocabulary.START, 3, 4]]


@pytest.mark.parametrize("fraction, held_out", [(0, 0), (0.25, 2), (0.99, 7)])
def test_held_out_share(fraction, held_out):
  task = environments.host_task(
    "test",
    EXAMPLES,
    lambda *_: 0,
    response_length=6,
    eval_fraction=fraction,
  )
  assert task.eval_pool.size == held_out
  both = np.concatenate([task.train_pool, task.eval_pool])
  assert sorted(both.tolist()) == list(range(8))


@pytest.mark.parametrize(
  "arguments, message",
  [
    ({"examples": []}, "0 prompts"),
    ({"examples": [("1=", 1), ("1=", 2)]}, "1 of them repeats"),
    ({"examples": [("a=", 1)]}, "outside the vocabulary"),
    ({"eval_fraction": 1.0}, r"eval_fraction=1.0: must be in \[0, 1\)"),
    ({"eval_fraction": -0.1}, "eval_fraction=-0.1"),
    ({"response_length": 0}, "response_length=0 < 1"),
    (
      {"prompt_length": 2},
      "prompt_length=2: 8 of 8 sequences are longer: raise it to 3",
    ),
    ({"solutions": ["1"]}, "1 solutions for 8 examples"),
    (
      {"solutions": ["1"] * 6 + ["1234", "12345"], "response_length": 4},
      "response_length=4: 2 of 8 sequences are longer: raise it to 6",
    ),
  ],
)
def test_bad_arguments(arguments, message):
  arguments = {"response_length": 6, "examples": EXAMPLES} | arguments
  examples = arguments.pop("examples")
  with pytest.raises(ValueError, match=message):
    environments.host_task("test", examples, lambda *_: 0, **arguments)
