"""Countdown: the verifier in the graph agrees with Python's own arithmetic."""

import collections
import itertools
import re

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies

from jaxroll import environments, types
from jaxroll.environments import vocabulary
from tests.environments import cases

ROWS, WIDTH = 32, 16
TASK = environments.countdown(
  numbers=4, largest=12, response_length=WIDTH, per_grade=40
)
VERIFY = cases.verifier(TASK)
TEXTS = cases.prompt_texts(TASK)


def reference(prompt, completion):
  """The rule read from the texts, with Python's parser for the value."""
  given, target = prompt.removesuffix(":").split("=")
  expression = completion.removesuffix("|")
  if not re.fullmatch(r"[1-9]\d*([-+*][1-9]\d*)*", expression):
    return 0
  numbers = collections.Counter(re.findall(r"\d+", expression))
  if not completion.endswith("|") or numbers != collections.Counter(
    given.split(",")
  ):
    return 0
  return int(eval(expression) == int(target))


def rewards(prompt_id, completions):
  """Rewards of completions to one prompt, in batches of one shape."""
  ids = jnp.array([prompt_id], jnp.int32)
  prompts, _ = TASK.prompts(TASK.data, ids)
  out = []
  for start in range(0, len(completions), ROWS):
    batch = completions[start : start + ROWS]
    padded = batch + ["|"] * (ROWS - len(batch))
    rows = cases.written(padded, WIDTH, group=[0] * ROWS)
    out += VERIFY(prompts, rows).reward.tolist()[: len(batch)]
  return out


def test_problems_are_as_announced():
  assert TASK.grades == ("2 numbers", "3 numbers", "4 numbers")
  seen = set()
  for text, grade in zip(TEXTS, TASK.grade):
    given, target = text.removesuffix(":").split("=")
    numbers = [int(n) for n in given.split(",")]
    assert len(numbers) == grade + 2
    assert all(1 <= n <= 12 for n in numbers)
    assert 1 <= int(target) <= 999
    seen.add((*sorted(numbers), "=", target))
  assert len(seen) == len(TEXTS)


def test_every_stored_solution_is_right_and_different():
  for row, text in enumerate(TEXTS):
    count = int(TASK.data.answers[row])
    answers = [
      TASK.decode(tokens[: length - 1]) + "|"
      for tokens, length in zip(
        TASK.data.answer[row, :count], TASK.data.answer_length[row]
      )
    ]
    assert all(reference(text, answer) for answer in answers)
    assert len(set(answers)) == count >= 1
    assert not TASK.data.answer[row, count:].any()


def test_solutions_vary_with_the_key_and_reach_all():
  row = int(np.argmax(TASK.data.answers == 4))
  ids = jnp.full(64, row, jnp.int32)
  tokens, _ = TASK.solutions(TASK.data, ids, jax.random.key(0))
  found = {TASK.decode(t[:8]) for t in np.asarray(tokens)}
  assert found == {TASK.decode(t[:8]) for t in TASK.data.answer[row]}


@pytest.mark.parametrize("grade", [0, 1, 2])
def test_all_well_formed_expressions_of_a_prompt(grade):
  row = int(np.flatnonzero(TASK.grade == grade)[3])
  given = TEXTS[row].split("=")[0].split(",")
  completions = [
    "".join(itertools.chain(*zip(order, (*signs, "|"))))
    for order in itertools.permutations(given)
    for signs in itertools.product("+-*", repeat=len(given) - 1)
  ]
  expected = [reference(TEXTS[row], c) for c in completions]
  assert 0 < sum(expected) < len(expected)
  assert rewards(row, completions) == expected


def test_all_strings_over_the_prompts_own_characters():
  # Two one-digit numbers: every string of up to four of their characters,
  # the signs and 0.
  row = next(i for i, t in enumerate(TEXTS) if re.match(r"(\d),(?!\1)\d=", t))
  a, b = TEXTS[row].split("=")[0].split(",")
  completions = [
    "".join(characters) + "|"
    for length in range(5)
    for characters in itertools.product(a + b + "+-*0", repeat=length)
  ]
  expected = [reference(TEXTS[row], c) for c in completions]
  assert sum(expected) >= 1
  assert rewards(row, completions) == expected


def near_misses(row):
  """Strings close to a prompt's answers: numbers and signs, shuffled."""
  given, target = TEXTS[row].removesuffix(":").split("=")
  part = strategies.sampled_from(
    [*given.split(","), target, "0", "1", "12", *"+-*,=: ()", ""]
  )
  sign = strategies.sampled_from("+-*")
  shuffled = strategies.permutations(given.split(","))
  formed = strategies.tuples(shuffled, strategies.lists(sign, min_size=4)).map(
    lambda x: "".join(itertools.chain(*zip(x[0], x[1])))[:-1]
  )
  loose = strategies.lists(part, max_size=9).map("".join)
  end = strategies.sampled_from(["|", "|", "|", ""])
  return strategies.tuples(formed | loose, end).map("".join)


@hypothesis.settings(
  max_examples=60, deadline=None, derandomize=True, database=None
)
@hypothesis.given(strategies.data())
def test_random_strings(source):
  row = source.draw(strategies.integers(0, len(TEXTS) - 1))
  completions = source.draw(
    strategies.lists(
      near_misses(row).filter(lambda c: len(c) <= WIDTH),
      min_size=8,
      max_size=ROWS,
    )
  )
  expected = [reference(TEXTS[row], c) for c in completions]
  assert rewards(row, completions) == expected


def by_hand(given, target):
  """A prompt that need not be in the table."""
  numbers = jnp.array([given + [0] * (4 - len(given))], jnp.int32)
  ids = jnp.zeros(1, jnp.int32)
  prompts, _ = TASK.prompts(TASK.data, ids)
  return prompts.replace(
    data=prompts.data._replace(
      numbers=numbers, target=jnp.array([target], jnp.int32)
    )
  )


@pytest.mark.parametrize(
  "given, target, completion, reward",
  [
    ([3, 5, 2], 11, "3*2+5|", 1),
    ([3, 5, 2], 11, "5+2*3|", 1),
    ([3, 5, 2], 16, "3+5*2|", 0),  # 13, not (3+5)*2
    ([3, 5, 2], 4, "2-3+5|", 1),  # from the left: (2-3)+5
    ([2, 3, 5], 7, "2-3*5|", 0),  # -13
    ([3, 5, 2], 11, "3*2+5", 0),  # not stopped
    ([3, 5, 2], 8, "3+5|", 0),  # 2 is not used
    ([3, 5, 2], 13, "3+5+5|", 0),  # 5 is used twice
    ([5, 5], 10, "5+5|", 1),  # given twice
    ([5, 5, 5], 10, "5+5|", 0),
    ([3, 5], 8, "3+5+|", 0),
    ([3, 5], 8, "+3+5|", 0),
    ([3, 5], 2, "-3+5|", 0),
    ([3, 5], 8, "3++5|", 0),
    ([3, 5], 8, "3 +5|", 0),
    ([3, 5], 8, "03+5|", 0),
    ([1, 2], 12, "12|", 0),  # 12 was not given
    ([12, 1], 13, "12+1|", 1),
    ([1, 2, 1], 13, "12+1|", 0),
    ([12], 12, "12|", 1),
    ([0, 5], 5, "0+5|", 0),
    ([3, 5], 0, "|", 0),
    # 2^32 + 3 and 65536^2 wrap around to 3 and 0 in 32 bits.
    ([3], 3, "4294967299|", 0),
    ([5], 5, "65536*65536+5|", 0),
    ([99, 99, 99, 99], 96059601, "99*99*99*99|", 1),
    ([99, 99, 99, 99], 96059601, "99*99*99*99*9|", 0),
  ],
)
def test_rows_by_hand(given, target, completion, reward):
  rows = cases.written([completion] * ROWS, WIDTH, group=[0] * ROWS)
  outcome = VERIFY(by_hand(given, target), rows)
  assert outcome.reward.tolist() == [reward] * ROWS
  assert (outcome.status == types.SCORED).all()


@pytest.mark.parametrize(
  "completion, reward",
  [
    ("3+5|", 1),
    ("3+5||", 0),
    ("3+5|+5|", 0),
    ("3+5|+", 0),
    ("3|5|", 0),  # a stop token is no sign
    ("3+5+", 0),  # and a sign no stop token, should a hook stop there
  ],
)
def test_where_the_stop_token_stands(completion, reward):
  ids = [
    vocabulary.STOP if c == "|" else vocabulary.encode(c)[0] for c in completion
  ]
  tokens = np.zeros((ROWS, WIDTH), np.int32)
  tokens[:, : len(ids)] = ids
  rows = cases.rollouts(tokens, [len(ids)] * ROWS, group=[0] * ROWS)
  outcome = VERIFY(by_hand([3, 5], 8), rows)
  assert outcome.reward.tolist() == [reward] * ROWS


@pytest.mark.parametrize(
  "arguments, message",
  [
    ({"numbers": 1}, "numbers=1: must be in 2 ... 4"),
    ({"numbers": 5}, "numbers=5: must be in 2 ... 4"),
    ({"largest": 1}, "largest=1: must be in 2 ... 99"),
    ({"largest": 100}, "largest=100: must be in 2 ... 99"),
    ({"per_grade": 0}, "per_grade=0"),
    ({"prompt_length": 4}, "prompt_length=4: .* never cut"),
    ({"response_length": 3}, "response_length=3: .* to 6"),
  ],
)
def test_bad_arguments(arguments, message):
  with pytest.raises(ValueError, match=message):
    environments.countdown(**arguments)


def test_a_small_grade_is_used_up():
  # Of 1 and 2: 1,1 -> 1, 2; 1,2 -> 1, 2, 3; 2,2 -> 4. (2-2 = 0 is no target.)
  task = environments.countdown(numbers=2, largest=2)
  found = {
    (*sorted(text.split("=")[0].split(",")), text.split("=")[1])
    for text in cases.prompt_texts(task)
  }
  assert found == {
    ("1", "1", "1:"),
    ("1", "1", "2:"),
    ("1", "2", "1:"),
    ("1", "2", "2:"),
    ("1", "2", "3:"),
    ("2", "2", "4:"),
  }
  assert (task.train_pool.size, task.eval_pool.size) == (5, 1)
