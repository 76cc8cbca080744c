"""Can the policy combine given numbers into a target?

"3,5,2=11:" asks for an expression with + - * (* binds tighter, no brackets)
that uses every given number exactly once and equals 11: 3*2+5, 5+2*3 ... So a
prompt has many right answers and the verifier has to compute. It is a scan
over the tokens with a state of a few integers a row; with `term` signed,

    number then * :  term <- term * number
    number then + :  total <- total + term * number,  term <- +1
    number then - :  total <- total + term * number,  term <- -1

Reference: Gandhi, Lee, Grand, Liu, Cheng, Sharma and Goodman, "Stream of
Search (SoS): Learning to Search in Language", 2024, arXiv 2404.03683.
Note: there, results may be combined in any order and division is allowed;
here an expression is flat and without division, so that it stays an integer.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import types
from jaxroll.environments import _expressions, _table, vocabulary

_SOLUTIONS = 4  # kept of each prompt, M below

_PLUS, _MINUS, _TIMES = vocabulary.encode("+-*")


class Problems(NamedTuple):
  """The task's table.

  Attributes:
    prompt: i32[N, S]. prompt_length: i32[N].
    numbers: i32[N, K], the given numbers, 0 where there are fewer than K.
    target: i32[N], 1 ... 999.
    answer: i32[N, M, T], different right answers, stop token included.
    answer_length: i32[N, M]. answers: i32[N], how many there are, 1 ... M.
  """

  prompt: chex.Array
  prompt_length: chex.Array
  numbers: chex.Array
  target: chex.Array
  answer: chex.Array
  answer_length: chex.Array
  answers: chex.Array


class _Reader(NamedTuple):
  """What the verifier knows of a row after some of its tokens."""

  total: chex.Array  # i32[B], the finished terms
  term: chex.Array  # i32[B], signed product of the finished factors
  number: chex.Array  # i32[B], the number being read, -1 before its digits
  used: chex.Array  # bool[B, K], which given numbers are spent
  good: chex.Array  # bool[B], well formed so far
  ended: chex.Array  # bool[B], the stop token was read


def countdown(
  *,
  numbers: int = 3,
  largest: int = 9,
  per_grade: int = 512,
  eval_per_grade: int = 64,
  prompt_length: int | None = None,
  response_length: int | None = None,
  seed: int = 0,
) -> types.Task:
  """Reach a target with every given number used once; many right answers.

  Grades are the numbers given: 2, 3 ... `numbers`. Two problems of a grade
  differ in their multiset of numbers or in their target, and every one has a
  solution. A grade with fewer problems than asked for gives all it has,
  shared out in the proportion per_grade : eval_per_grade.

  Args:
    numbers: most numbers given, 2 ... 4.
    largest: numbers are drawn from 1 ... largest, 2 <= largest <= 99.
    per_grade: training problems of a grade, >= 1.
    eval_per_grade: evaluation problems of a grade, >= 0; never trained on.
    prompt_length: S; None for the longest prompt's, start token included.
    response_length: T; None for the longest answer's, stop token included.
    seed: which problems are drawn.

  Returns:
    types.Task; `Prompts.data` are the gathered `Problems`, and `solutions`
    draws one of up to four stored expressions of each prompt.

  Raises:
    ValueError: for numbers, largest or counts out of range, or a length that
      a prompt or an answer exceeds.

  Example:
    >>> task = countdown(numbers=2)
    >>> task.grades, task.prompt_length, task.response_length
    (('2 numbers',), 8, 4)
  """
  if not 2 <= numbers <= 4:
    raise ValueError(f"numbers={numbers}: must be in 2 ... 4")
  # 99^4 < 2^31: no product of given numbers overflows.
  if not 2 <= largest <= 99:
    raise ValueError(f"largest={largest}: must be in 2 ... 99")
  rng = np.random.default_rng(seed)
  problems, counts = [], []
  for given in range(2, numbers + 1):
    found = _expressions.problems(
      given, largest, per_grade + eval_per_grade, keep=_SOLUTIONS, rng=rng
    )
    problems += found
    counts.append(_table.split(len(found), per_grade, eval_per_grade))
  grade, train_pool, eval_pool = _table.pools(counts)
  data = _tabulate(problems, numbers, prompt_length, response_length)
  return types.Task(
    name="countdown",
    data=data,
    prompts=_table.prompts,
    verify=_verify,
    solutions=_solutions,
    decode=vocabulary.decode,
    grade=grade,
    grades=tuple(f"{n} numbers" for n in range(2, numbers + 1)),
    train_pool=train_pool,
    eval_pool=eval_pool,
    vocab_size=vocabulary.SIZE,
    prompt_length=data.prompt.shape[1],
    response_length=data.answer.shape[2],
    stop_tokens=(vocabulary.STOP,),
    jittable=True,
  )


def _tabulate(problems, numbers, prompt_length, response_length):
  rows, targets, texts = zip(*problems)
  encode = vocabulary.encode
  prompt, length = _table.pad(
    [
      [vocabulary.START, *encode(f"{','.join(map(str, row))}={target}:")]
      for row, target in zip(rows, targets)
    ],
    name="prompt_length",
    width=prompt_length,
  )
  answer, answer_length = _table.pad(
    [
      [*encode(text), vocabulary.STOP] if text else []
      for row in texts
      for text in row + [""] * (_SOLUTIONS - len(row))
    ],
    name="response_length",
    width=response_length,
  )
  return Problems(
    prompt=prompt,
    prompt_length=length,
    numbers=_table.pad(rows, name="numbers", width=numbers)[0],
    target=np.array(targets, np.int32),
    answer=answer.reshape(len(rows), _SOLUTIONS, -1),
    answer_length=answer_length.reshape(len(rows), _SOLUTIONS),
    answers=np.array([len(row) for row in texts], np.int32),
  )


def _verify(prompts, rollouts) -> types.Outcome:
  numbers = prompts.data.numbers[rollouts.group]
  target = prompts.data.target[rollouts.group]
  rows, length = rollouts.tokens.shape
  start = _Reader(
    total=jnp.zeros(rows, jnp.int32),
    term=jnp.ones(rows, jnp.int32),
    number=jnp.full(rows, -1, jnp.int32),
    used=numbers == 0,
    good=jnp.ones(rows, bool),
    ended=jnp.zeros(rows, bool),
  )

  def step(reader, column):
    position, token = column
    after = _read(reader, token, numbers)
    active = position < rollouts.length
    return jax.tree.map(
      lambda new, old: jnp.where(
        jnp.expand_dims(active, range(1, new.ndim)), new, old
      ),
      after,
      reader,
    ), None

  reader, _ = jax.lax.scan(step, start, (jnp.arange(length), rollouts.tokens.T))
  complete = reader.good & reader.ended & jnp.all(reader.used, axis=1)
  correct = complete & (reader.total == target) & rollouts.stopped
  return _table.outcome(correct, rollouts)


def _read(reader: _Reader, token, numbers) -> _Reader:
  """Reads one token [B] of each row, given numbers [B, K]."""
  digit = token - vocabulary.ZERO
  is_digit = (digit >= 0) & (digit <= 9)
  stop = token == vocabulary.STOP
  times = token == _TIMES
  closes = stop | times | (token == _PLUS) | (token == _MINUS)

  # Closing a number spends the first free given number that equals it; with
  # no digits read there is none (-1 is not given).
  match = (numbers == reader.number[:, None]) & ~reader.used
  first = match & (jnp.cumsum(match, axis=1, dtype=jnp.int32) == 1)
  leading_zero = (digit == 0) & (reader.number < 0)
  good = reader.good & ~reader.ended
  good &= jnp.where(is_digit, ~leading_zero, closes & jnp.any(match, axis=1))
  close = good & closes
  # Only products of given numbers are kept: they fit (99^4 < 2^31).
  product = jnp.where(close, reader.term * reader.number, 0)
  sign = jnp.where(token == _MINUS, jnp.int32(-1), jnp.int32(1))
  # 1000 is no given number: longer ones are wrong but do not overflow.
  longer = jnp.minimum(jnp.maximum(reader.number, 0) * 10 + digit, 1000)
  return _Reader(
    total=reader.total + jnp.where(times, 0, product),
    term=jnp.where(close, jnp.where(times, product, sign), reader.term),
    number=jnp.where(is_digit, longer, jnp.int32(-1)),
    used=reader.used | (first & close[:, None]),
    good=good,
    ended=reader.ended | (stop & close),
  )


def _solutions(data, ids, key):
  chosen = _table.prompts(data, ids)[0].data
  which = jax.random.randint(key, chosen.answers.shape, 0, chosen.answers)
  row = jnp.arange(which.shape[0])
  return chosen.answer[row, which], chosen.answer_length[row, which]
