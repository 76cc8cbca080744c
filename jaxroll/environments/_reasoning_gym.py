"""Which tasks does reasoning-gym give? All of its data sets, by name.

Each has a generator with parameters and a verifier of its own, which scores an
answer in [0, 1]. Difficulty is a list of parameter sets, the task's grades.

Reference: Stojanovski et al. 2025, REASONING GYM, 2505.24760.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from jaxroll import types
from jaxroll.environments import _table, _text, gym


def reasoning_gym(
  data_set: str,
  *,
  tokenizer,
  response_length: int = 128,
  parameters: Mapping[str, Any] | None = None,
  levels: Sequence[Mapping[str, Any]] = (),
  per_grade: int = 512,
  eval_per_grade: int = 64,
  prompt: str = "{question}",
  system: str = "",
  form: str = "chat",
  extract: str = "final",
  least_score: float = 0.0,
  prompt_length: int | None = None,
  longer: str = "refuse",
  seed: int = 0,
  workers: int = 2,
  time_limit: float = 10.0,
  memory_limit: int = 4 * 2**30,
) -> types.Task:
  """A data set of reasoning-gym as a task.

  A prompt's id is its place: level by level, in the order of generation, which
  depends on the arguments and the package's version alone. Generators and
  verifiers run in processes of their own.

  Args:
    data_set: its name, as "chain_sum".
    tokenizer: of the model, as `models.load` gives it.
    response_length: T, stop token included, >= 1.
    parameters: of the data set, for all levels.
    levels: further parameters of each grade, easiest first; () for one grade.
    per_grade, eval_per_grade: prompts of each grade to train on, >= 1, and to
      hold out, >= 0; fewer, in that proportion, where a level has fewer.
    prompt: the user's turn, {question} in it once.
    system: a system turn before it; "" for none.
    form: "chat", by the model's template, or "plain".
    extract: the answer in a completion: "final", what stands in <answer>, in
      a box or after "####", else all of it; "number", the last number in
      that; "text", all of it.
    least_score: scores below it count as 0. Many verifiers give something for
      a wrong answer, and for one that contains the right one; 1.0 leaves only
      what is right.
    prompt_length: S; None for the longest prompt's.
    longer: what happens to longer prompts: "refuse" or "drop".
    seed: of the problems.
    workers, time_limit, memory_limit: of the verifier, as for `host_task`; at
      least one worker.

  Returns:
    types.Task with `jittable=False`; with solutions where the data set gives
    an answer to each problem and all of them fit.

  Raises:
    ImportError: without the package.
    ValueError: for an unknown data set (with those there are), parameters that
      it refuses, numbers out of range, prompts that are too long.
  """
  base = dict(parameters or {})
  sets = [base | dict(level) for level in levels] or [base]
  wrong = sorted({"seed", "size"} & {name for own in sets for name in own})
  if wrong:
    raise ValueError(
      f"parameters name {wrong}: use seed=, per_grade= and eval_per_grade= of "
      "the task instead"
    )
  _table.split(1, per_grade, eval_per_grade)  # refuses bad numbers
  scorer = gym.Scorer(data_set, sets, extract=extract, least_score=least_score)
  name = f"reasoning_gym:{data_set}"
  wanted = per_grade + eval_per_grade
  examples, prompts, answers, counts = [], [], [], []
  for place, problems in enumerate(
    gym.generate(data_set, sets, count=wanted, seed=seed)
  ):
    made = _text.tokens(
      [problem.question for problem in problems],
      tokenizer=tokenizer,
      prompt=prompt,
      system=system,
      form=form,
    )
    kept = _text.fitting(name, made, prompt_length, longer)
    if len(kept) < wanted:
      logging.info(
        "%s: level %d has %d of %d prompts", name, place, len(kept), wanted
      )
    counts.append(_table.split(len(kept), per_grade, eval_per_grade))
    prompts += [made[i] for i in kept]
    examples += [
      (problems[i].question, (place, problems[i].entry)) for i in kept
    ]
    answers += [problems[i].answer for i in kept]
  grade, train_pool, eval_pool = _table.pools(counts)
  return _text.task(
    name,
    examples,
    prompts,
    scorer,
    tokenizer=tokenizer,
    grade=grade,
    grades=_names(levels),
    train_pool=train_pool,
    eval_pool=eval_pool,
    solutions=_solutions(answers, tokenizer, response_length),
    response_length=response_length,
    prompt_length=prompt_length,
    workers=workers,
    time_limit=time_limit,
    memory_limit=memory_limit,
  )


def _names(levels) -> tuple:
  """A grade's parameters as its name."""
  if not levels:
    return ("all",)
  return tuple(
    ",".join(f"{name}={value}" for name, value in sorted(level.items()))
    or f"level {place}"
    for place, level in enumerate(levels)
  )


def _solutions(answers, tokenizer, response_length):
  """The answers, or None where one is missing or does not fit."""
  if None in answers:
    return None
  try:
    longest = max(len(tokenizer.encode(answer)) for answer in answers)
  except ValueError:
    return None
  return answers if longest < response_length else None
