"""What does the model write? k rows for each prompt, some prompts at a time.

A prompt's rows are the same whatever prompts they are drawn with: their random
numbers come from the prompt's id and the row's index.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import evaluate, rollout, types
from jaxroll.environments import answers


class Rows(NamedTuple):
  """k rows of each of N prompts, numpy, [N, k] where nothing else is said.

  Attributes:
    ids, grade: i32[N]. prompt: N texts.
    completion: N lists of k texts, without the stop token.
    correct, scored, stopped: bool. reward: f32. length, status: i32.
    answer: i32, equal answers to a prompt share a number, -1 none.
  """

  ids: Any
  grade: Any
  prompt: list
  completion: list
  correct: Any
  scored: Any
  stopped: Any
  reward: Any
  length: Any
  status: Any
  answer: Any


def chosen(task: types.Task, pool: str, number: int) -> np.ndarray:
  """Ids spread evenly through a pool, which is ordered by grade.

  Args:
    task: types.Task.
    pool: "eval" or "train".
    number: most prompts, >= 1.

  Returns:
    i32[N], N = min(number, the pool's size).

  Raises:
    ValueError: for an empty pool.
  """
  ids = np.asarray(task.eval_pool if pool == "eval" else task.train_pool)
  if not len(ids):
    raise ValueError(
      f"the task's {pool} pool is empty: give it prompts in --task_args, or "
      "choose the other --pool"
    )
  number = min(number, len(ids))
  return ids[np.arange(number) * len(ids) // number].astype(np.int32)


def draw(
  policy: types.Policy,
  params,
  task: types.Task,
  ids: np.ndarray,
  *,
  k: int,
  sampler: rollout.Sampler,
  key,
  slots: int,
  at_once: int,
  identity: str,
  mesh: jax.sharding.Mesh | None = None,
  note: Callable[[int], None] = lambda done: None,
) -> Rows:
  """Samples and verifies.

  Args:
    policy, params: the model.
    task: types.Task.
    ids: i32[N], prompts.
    k: rows a prompt.
    sampler: of `rollout.sampler`.
    key: typed PRNG key.
    slots: rows decoded at once.
    at_once: prompts whose contexts are held together.
    identity: what makes two answers equal, see `identities`.
    mesh: rows are split over its `data` and `fsdp` axes; None on one device.
    note: called with the number of prompts done.

  Returns:
    `Rows`.
  """
  at_once = min(at_once, len(ids))
  # The ids are an argument of the compiled program instead of a part of it.
  moved = task._replace(
    prompts=lambda data, places: task.prompts(data[0], data[1][places])
  )
  sample = evaluate.held_out(
    policy,
    moved,
    np.arange(at_once),
    k=k,
    slots=slots,
    max_length=task.response_length,
    mesh=mesh,
  )
  stops = rollout.stops(task.stop_tokens)
  parts = []
  for start in range(0, len(ids), at_once):
    some = ids[start : start + at_once]
    full = np.resize(some, at_once)  # the last part repeats its prompts
    data = task.data, jnp.asarray(full)
    samples = jax.device_get(sample(params, data, sampler, stops, key))
    parts.append(_read(task, some, samples, k, identity))
    note(start + len(some))
  joined = (
    sum(columns, [])
    if isinstance(columns[0], list)
    else np.concatenate(columns)
    for columns in zip(*parts)
  )
  return Rows(*joined)


def _read(task, ids, samples, k, identity) -> Rows:
  number = len(ids)
  rows, outcome, contexts = samples.rollouts, samples.outcome, samples.contexts

  def grid(x):
    return np.asarray(x).reshape(-1, k)[:number]

  written = []
  for tokens, length, stopped in zip(rows.tokens, rows.length, rows.stopped):
    own = tokens[:length].tolist()
    if stopped and own and own[-1] in task.stop_tokens:
      own.pop()
    written.append(own)
  texts = [task.decode(own) for own in written[: number * k]]
  length, stopped = grid(rows.length), grid(rows.stopped)
  completion = [texts[i * k : (i + 1) * k] for i in range(number)]
  given = getattr(outcome, "answer", None)
  if given is None:
    given = identities(completion, stopped, identity)
  return Rows(
    ids=np.asarray(ids),
    grade=np.asarray(task.grade)[ids],
    prompt=[
      task.decode(contexts.tokens[i][: contexts.length[i]].tolist())
      for i in range(number)
    ],
    completion=completion,
    correct=samples.correct[:number],
    scored=samples.scored[:number],
    stopped=stopped,
    reward=grid(outcome.reward),
    length=length,
    status=grid(outcome.status),
    answer=grid(given),
  )


IDENTITIES = ("row", "text", "number")


def identities(completion, stopped, identity: str) -> np.ndarray:
  r"""Numbers of answers, for a vote.

  Args:
    completion: N lists of k texts.
    stopped: bool[N, k].
    identity: "row": the whole of a row that has stopped. "text": the content
      of its \boxed{}, what follows "####", or all of it, up to case and
      spaces. "number": the last number in that, or the text without one.

  Returns:
    i32[N, k]; -1 is no answer: an empty text, or an unfinished row.

  Example:
    >>> identities([["so 4", "4.0", "5", ""]], [[True] * 4], "number")
    array([[ 0,  0,  1, -1]], dtype=int32)
  """
  found = np.full((len(completion), len(completion[0])), -1, np.int32)
  for i, texts in enumerate(completion):
    seen = {}
    for j, text in enumerate(texts):
      name = text if stopped[i][j] else ""
      if identity != "row":
        name = " ".join(answers.final(text).split()).casefold()
      if identity == "number":
        name = answers.number(text) or name
      if name:
        found[i, j] = seen.setdefault(name, len(seen))
  return found
