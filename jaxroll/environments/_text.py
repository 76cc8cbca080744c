"""How do questions become prompts of a language model?

A question is put into a prompt's text, the text into a chat turn, and the turn
is tokenised once, here: what is trained on are these tokens and those that the
policy samples after them. Text is only ever read by people and verifiers.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from jaxroll import types
from jaxroll.environments import _host, _table, vocabulary

_FIELD = re.compile(r"\{(\w+)\}")

# How a prompt's text reaches the model.
FORMS = ("chat", "plain")


def fill(text: str, fields: Mapping[str, Any]) -> str:
  """A text with its {names} replaced; other braces stay as they are.

  Raises:
    KeyError: for a name that is no field.

  Example:
    >>> fill("{a} + {b} = {}", {"a": 1, "b": 2.0})
    '1 + 2 = {}'
  """
  return _FIELD.sub(lambda found: written(fields[found[1]]), text)


def written(value: Any) -> str:
  """A value as a person writes it: 51 for 51.0."""
  whole = isinstance(value, float) and value.is_integer()
  return str(int(value) if whole else value)


def names(text: str) -> list[str]:
  """The {names} that stand in a text."""
  return _FIELD.findall(text)


def tokens(
  questions: Sequence[str], *, tokenizer, prompt: str, system: str, form: str
) -> list[list[int]]:
  """Tokens of each question's prompt.

  Args:
    questions: texts.
    tokenizer: with `encode`, `chat` and `starts`, as `models.load` gives it.
    prompt: the prompt's text, in which {question} stands for the question.
    system: text of a system turn before it; "" for none.
    form: "chat" renders a turn with the model's template, "plain" gives the
      text as it is, after the tokens that a text starts with.

  Returns:
    N lists.

  Raises:
    ValueError: for a prompt without a question, another form, or a question
      that the tokenizer refuses.
  """
  if names(prompt) != ["question"]:
    raise ValueError(
      f"prompt={prompt!r}: {{question}} must stand in it once, and no other "
      "name in braces"
    )
  if form not in FORMS:
    raise ValueError(f"form={form!r}: must be one of {FORMS}")
  if form == "plain" and system:
    raise ValueError(
      f"system={system!r} with form='plain': write it into the prompt instead"
    )
  before = [{"role": "system", "content": system}] if system else []
  made = []
  for place, question in enumerate(questions):
    text = fill(prompt, {"question": question})
    try:
      if form == "plain":
        made.append([*tokenizer.starts, *tokenizer.encode(text)])
      else:
        turn = {"role": "user", "content": text}
        made.append(list(tokenizer.chat([*before, turn])))
    except ValueError as error:
      raise ValueError(
        f"question {place}, {question[:200]!r}: {error}"
      ) from error
  return made


def fitting(
  name: str, prompts: Sequence[Sequence[int]], length: int | None, longer: str
) -> list[int]:
  """Places of the prompts that are used.

  Args:
    name: the task's, for the log.
    prompts: N lists of tokens.
    length: most tokens of a prompt; None for no limit.
    longer: "refuse" or "drop", what happens to a longer one.

  Returns:
    Places in [0, N), ascending.

  Raises:
    ValueError: where some are longer and `longer` is "refuse", or all are;
      with their number.
  """
  if longer not in ("refuse", "drop"):
    raise ValueError(f"longer={longer!r}: must be 'refuse' or 'drop'")
  if length is None:
    return list(range(len(prompts)))
  kept = [i for i, ids in enumerate(prompts) if len(ids) <= length]
  lost = len(prompts) - len(kept)
  if lost and (longer == "refuse" or not kept):
    raise ValueError(
      f"prompt_length={length}: {lost} of {len(prompts)} prompts are longer: "
      f"raise it to {max(map(len, prompts))}, or set longer='drop' (they are "
      "never cut)"
    )
  if lost:
    logging.info(
      "%s: dropped %d of %d prompts, longer than prompt_length=%d",
      *(name, lost, len(prompts), length),
    )
  return kept


def task(
  name: str,
  examples: Sequence[tuple[str, Any]],
  prompts: Sequence[Sequence[int]],
  scorer,
  *,
  tokenizer,
  grade,
  grades: tuple,
  train_pool,
  eval_pool,
  solutions: Sequence[str] | None,
  response_length: int,
  prompt_length: int | None,
  workers: int,
  time_limit: float,
  memory_limit: int,
) -> types.Task:
  """A task of tokenised prompts whose rows a scorer of texts judges.

  Args:
    name, examples, scorer, response_length, prompt_length, workers,
      time_limit, memory_limit: as for `environments.host_task`.
    prompts: tokens of each example.
    tokenizer: as for `tokens`, with `decode`, `size` and `stops`.
    grade: N places in `grades`.
    train_pool, eval_pool: ids.
    solutions: a correct completion of each example, or None.

  Returns:
    types.Task.
  """
  by_text = dict(zip((text for text, _ in examples), prompts))
  made = _host.host_task(
    name,
    examples,
    scorer,
    response_length=response_length,
    prompt_length=prompt_length,
    # The prompts are tokenised already, start tokens included.
    vocabulary=vocabulary.Vocabulary(
      by_text.__getitem__,
      tokenizer.decode,
      tokenizer.size,
      (),
      tuple(tokenizer.stops),
    ),
    eval_fraction=0.0,
    workers=workers,
    time_limit=time_limit,
    memory_limit=memory_limit,
  )
  data = made.data
  if solutions is not None:
    answer, answer_length = _table.pad(
      [[*tokenizer.encode(s), tokenizer.stops[0]] for s in solutions],
      name="response_length",
      width=response_length,
    )
    data = data._replace(answer=answer, answer_length=answer_length)
  return made._replace(
    data=data,
    solutions=None if solutions is None else _table.solutions,
    grade=np.asarray(grade, np.int32),
    grades=grades,
    train_pool=np.asarray(train_pool, np.int32),
    eval_pool=np.asarray(eval_pool, np.int32),
  )
