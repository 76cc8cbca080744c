"""Can the policy write the one right number, over a ladder of difficulty?

    reward = 1 if the row is exactly answer + stop token, else 0

Graded arithmetic gives what adaptive rollouts need: prompts whose difficulty
is known, from nearly always to nearly never solved, and an exact verifier of
a few operations inside the training step.

Reference: Lee, Sreenivasan, Lee, Lee and Papailiopoulos, "Teaching Arithmetic
to Small Transformers", 2023, arXiv 2307.03381 (plain format).
"""

import math
import re
from collections.abc import Sequence

import chex
import jax.numpy as jnp
import numpy as np

from jaxroll import types
from jaxroll.environments import _table, vocabulary

GRADES = (
  "+:1:2",
  "-:1:2",
  "*:1:2",
  "+:2:2",
  "-:2:2",
  "+:2:3",
  "*:2:2",
  "+:4:4",
)

_GRADE = re.compile(r"([-+*]):([1-4]):([2-4])")
_APPLY = {
  "+": sum,
  "-": lambda operands: operands[0] - sum(operands[1:]),
  "*": math.prod,
}


def arithmetic(
  *,
  grades: Sequence[str] = GRADES,
  per_grade: int = 512,
  eval_per_grade: int = 64,
  prompt_length: int | None = None,
  response_length: int | None = None,
  seed: int = 0,
) -> types.Task:
  """Sums, differences and products with exactly one right answer.

  A grade is "op:digits:terms": "+:2:3" is 12+70+55=. Operands have exactly
  that many digits (0 ... 9 for one). Problems are distinct as texts, so 3+4
  and 4+3 are two; a grade with fewer of them than asked for gives all it has,
  shared out in the proportion per_grade : eval_per_grade ("+:1:2" has 100). A
  grade's problems depend on `seed` and the grade, not on the other grades.

  Args:
    grades: easiest first; op in + - *, digits in 1 ... 4, terms in 2 ... 4
      and, for *, digits * terms <= 8 (answers of at most 8 characters).
    per_grade: training problems of a grade, >= 1.
    eval_per_grade: evaluation problems of a grade, >= 0; never trained on.
    prompt_length: S; None for the longest prompt's, start token included.
    response_length: T; None for the longest answer's, stop token included.
    seed: which problems are drawn.

  Returns:
    types.Task; `Prompts.data` has the answer and its length.

  Raises:
    ValueError: for a bad or repeated grade, bad counts, or a length that a
      prompt or an answer exceeds.

  Example:
    >>> task = arithmetic(grades=["-:2:2"])
    >>> task.vocab_size, task.prompt_length, task.response_length
    (24, 7, 4)
  """
  if not grades or len(set(grades)) != len(grades):
    raise ValueError(f"grades={grades!r}: give at least one, each once")
  texts, counts = [], []
  for grade in grades:
    problems, count = _draw(grade, per_grade, eval_per_grade, seed)
    texts += problems
    counts.append(count)
  questions, answers = zip(*texts)
  data = _table.Problems(
    *_table.pad(
      [[vocabulary.START, *vocabulary.encode(q)] for q in questions],
      name="prompt_length",
      width=prompt_length,
    ),
    *_table.pad(
      [[*vocabulary.encode(a), vocabulary.STOP] for a in answers],
      name="response_length",
      width=response_length,
    ),
  )
  grade, train_pool, eval_pool = _table.pools(counts)
  return types.Task(
    name="arithmetic",
    data=data,
    prompts=_table.prompts,
    verify=_verify,
    solutions=_table.solutions,
    decode=vocabulary.decode,
    grade=grade,
    grades=tuple(grades),
    train_pool=train_pool,
    eval_pool=eval_pool,
    vocab_size=vocabulary.SIZE,
    prompt_length=data.prompt.shape[1],
    response_length=data.answer.shape[1],
    stop_tokens=(vocabulary.STOP,),
    jittable=True,
  )


def _draw(grade, train, evaluation, seed):
  """[(question, answer)] of a grade, and how many go to each pool."""
  spec = _GRADE.fullmatch(grade)
  if not spec or (spec[1] == "*" and int(spec[2]) * int(spec[3]) > 8):
    raise ValueError(
      f"grade={grade!r}: give op:digits:terms with op in + - *, digits in "
      "1 ... 4, terms in 2 ... 4 and, for *, digits * terms <= 8"
    )
  op, digits, terms = spec[1], int(spec[2]), int(spec[3])
  low = 10 ** (digits - 1) if digits > 1 else 0
  choices = 10**digits - low
  count = _table.split(choices**terms, train, evaluation)
  rng = np.random.default_rng((seed, ord(op), digits, terms))
  # A problem is a number in base `choices`, one digit an operand.
  problems = rng.choice(choices**terms, sum(count), replace=False)
  place = choices ** np.arange(terms)
  operands = low + problems[:, None] // place % choices
  return [
    (op.join(map(str, row)) + "=", str(_APPLY[op](row)))
    for row in operands.tolist()
  ], count


def _verify(prompts, rollouts) -> types.Outcome:
  answer = prompts.data.answer[rollouts.group]
  length = prompts.data.answer_length[rollouts.group]
  chex.assert_equal_shape([answer, rollouts.tokens])
  # Lengths bound the comparison: a pad token may be a sampled one.
  inside = jnp.arange(answer.shape[1])[None, :] < length[:, None]
  same = jnp.all((rollouts.tokens == answer) | ~inside, axis=1)
  exact = same & (rollouts.length == length) & rollouts.stopped
  return _table.outcome(exact, rollouts)
