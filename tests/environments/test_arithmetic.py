"""Arithmetic: the answers are right, the verifier is exact."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import environments
from tests.environments import cases


def texts(task):
  answers = [
    task.decode(row[: length - 1])
    for row, length in zip(task.data.answer, task.data.answer_length)
  ]
  return list(zip(cases.prompt_texts(task), answers))


def test_answers_of_every_default_grade():
  task = environments.arithmetic()
  for (prompt, answer), grade in zip(texts(task), task.grade):
    assert answer == str(eval(prompt.removesuffix("=")))
    op, digits, terms = task.grades[grade].split(":")
    operands = prompt.removesuffix("=").split(op)
    assert len(operands) == int(terms)
    assert {len(operand) for operand in operands} == {int(digits)}


def test_a_small_grade_is_used_up_in_proportion():
  # 10 * 10 problems for 576: 100 * 64 // 576 = 11 are held out.
  task = environments.arithmetic(grades=["-:1:2", "+:3:2"])
  assert task.grade.tolist() == [0] * 100 + [1] * 576
  assert (task.grade[task.train_pool] == 0).sum() == 89
  assert (task.grade[task.eval_pool] == 0).sum() == 11
  assert (task.grade[task.eval_pool] == 1).sum() == 64


@pytest.mark.parametrize(
  "grade, longest",
  [("*:4:2", 8), ("*:2:4", 8), ("+:4:4", 5), ("-:4:4", 6), ("-:1:4", 3)],
)
def test_answers_have_at_most_eight_characters(grade, longest):
  # 9999^2 = 99980001, 99^4 = 96059601, 4*9999 = 39996,
  # 1000-3*9999 = -28997, 0-3*9 = -27.
  task = environments.arithmetic(
    grades=[grade], per_grade=2000, response_length=longest + 1
  )
  assert task.data.answer_length.max() == longest + 1


def test_a_grade_does_not_depend_on_the_others():
  alone = environments.arithmetic(grades=["-:2:2"])
  among = environments.arithmetic(grades=["+:1:2", "-:2:2"])
  assert texts(alone) == texts(among)[100:]
  other = environments.arithmetic(grades=["-:2:2"], seed=1)
  assert set(texts(alone)) != set(texts(other))


@pytest.mark.parametrize(
  "completion, reward",
  [
    ("17|", 1),
    ("17", 0),  # cut off at the limit
    ("017|", 0),
    ("17 |", 0),
    (" 17|", 0),
    ("+17|", 0),
    ("-17|", 0),
    ("1|", 0),
    ("7|", 0),
    ("71|", 0),
    ("177|", 0),
    ("9+8|", 0),
    ("|", 0),
  ],
)
def test_only_the_exact_answer_is_right(completion, reward):
  task = environments.arithmetic(grades=["+:1:2"], response_length=5)
  ids = jnp.array([cases.find(task, "9+8=")], jnp.int32)
  prompts, _ = task.prompts(task.data, ids)
  rows = cases.written([completion], 5, group=[0])
  assert cases.verifier(task)(prompts, rows).reward.tolist() == [reward]


def test_negative_answers():
  task = environments.arithmetic(grades=["-:1:3"])
  assert ("1-3-5=", "-7") in texts(
    environments.arithmetic(grades=["-:1:3"], per_grade=1000, eval_per_grade=0)
  )
  assert all((a[0] == "-") == (eval(p[:-1]) < 0) for p, a in texts(task))


@pytest.mark.parametrize(
  "arguments, message",
  [
    ({"grades": ["/:1:2"]}, "'/:1:2'"),
    ({"grades": ["+:5:2"]}, "digits in 1 ... 4"),
    ({"grades": ["+:1:1"]}, "terms in 2 ... 4"),
    ({"grades": ["+:1:5"]}, "terms in 2 ... 4"),
    ({"grades": ["*:3:3"]}, r"digits \* terms <= 8"),
    ({"grades": ["1+1"]}, "'1\\+1'"),
    ({"grades": []}, "at least one"),
    ({"grades": ["+:1:2", "+:1:2"]}, "each once"),
    ({"per_grade": 0}, "per_grade=0"),
    ({"eval_per_grade": -1}, "eval_per_grade=-1"),
  ],
)
def test_bad_arguments(arguments, message):
  with pytest.raises(ValueError, match=message):
    environments.arithmetic(**arguments)


def test_nothing_is_cut():
  # Start token, two digits, sign, two digits, "=" are 7; "+:1:2" needs 5.
  with pytest.raises(ValueError, match="prompt_length=6: 576 of 676 .* to 7"):
    environments.arithmetic(grades=["+:1:2", "+:2:2"], prompt_length=6)
  with pytest.raises(ValueError, match="response_length=1: 100 of 100"):
    environments.arithmetic(grades=["*:1:2"], response_length=1)


def test_no_evaluation_problems():
  task = environments.arithmetic(grades=["+:1:2"], eval_per_grade=0)
  assert task.eval_pool.size == 0
  np.testing.assert_array_equal(task.train_pool, np.arange(100))
