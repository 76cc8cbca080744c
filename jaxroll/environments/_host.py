"""How does any Python function become a verifier?

    reward_i = scorer(prompt, completion_i, answer)

row by row, on the host. What the scorer cannot score is no evidence about the
policy: an exception, None, NaN, an infinity or a non-number makes the row
UNSCORABLE with reward 0, and the run goes on. With `workers` it runs in
processes of its own, where a hang, a crash or an exhausted memory is the
same: no evidence, and no end of the run.
"""

import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import chex
import jax
import numpy as np
from absl import logging

from jaxroll import types
from jaxroll.environments import _table, _worker
from jaxroll.environments import vocabulary as vocabulary_lib
from jaxroll.environments import workers as workers_lib


def host_task(
  name: str,
  examples: Sequence[tuple[str, Any]],
  scorer: Callable[[str, str, Any], float],
  *,
  response_length: int,
  prompt_length: int | None = None,
  solutions: Sequence[str] | None = None,
  vocabulary: vocabulary_lib.Vocabulary = vocabulary_lib.DEFAULT,
  eval_fraction: float = 0.1,
  seed: int = 0,
  workers: int = 0,
  time_limit: float = 10.0,
  memory_limit: int = 4 * 2**30,
) -> types.Task:
  """A task whose verifier is a Python function of texts.

  The completion a scorer gets is everything after the prompt, without the
  stop token that ended it; a row that hit its limit has all of its text. Pad,
  start and stop tokens inside it are written out ("<pad>"). The first failure
  is logged with its row's text (with workers, the first of each kind), the
  others only counted, as `sum(outcome.status == types.UNSCORABLE)`.

  Args:
    name: the task's name.
    examples: N pairs (prompt, answer); prompts are distinct texts, answers
      anything the scorer understands.
    scorer: (prompt, completion, answer) -> finite number. Without workers it
      runs in the trainer's process, without a time limit: it must be trusted
      with whatever a policy writes.
    response_length: T, stop token included, >= 1.
    prompt_length: S; None for the longest prompt's, start token included.
    solutions: a correct completion of each example, for a supervised start;
      None where there are none.
    vocabulary: tokens of prompts, completions and solutions: characters, or
      a pretrained model's (`encode` may render a chat template).
    eval_fraction: share of the examples that is held out, 0 <= x < 1.
    seed: which examples are held out.
    workers: processes that run the scorer, which they must be able to import;
      0 for the trainer's own. They end with the task.
    time_limit: with workers, seconds that one answer may take. R rows take at
      most (ceil(R / workers) + 1) times as long together.
    memory_limit: with workers, bytes of address space of each.

  Returns:
    types.Task with `jittable=False` and one grade.

  Raises:
    ValueError: for no or repeated prompts, a text that is too long (with the
      count; nothing is cut), solutions of another number or a bad fraction;
      for a scorer that workers cannot load, or that must not run without.

  Example:
    >>> task = host_task(
    ...   "double", [("1+1=", 2), ("2+2=", 4)],
    ...   lambda prompt, completion, answer: int(completion) == answer,
    ...   response_length=4, eval_fraction=0.5)
    >>> task.train_pool.size, task.eval_pool.size, task.jittable
    (1, 1, False)
  """
  examples = tuple(examples)
  texts = [prompt for prompt, _ in examples]
  repeated = len(texts) - len(set(texts))
  if repeated or not texts:
    raise ValueError(
      f"examples: {len(texts)} prompts, {repeated} of them repeats: give at "
      "least one, each once (a repeat could be trained and evaluated on)"
    )
  if not 0 <= eval_fraction < 1:
    raise ValueError(f"eval_fraction={eval_fraction}: must be in [0, 1)")
  if response_length < 1:
    raise ValueError(f"response_length={response_length} < 1: raise it")
  if solutions is not None and len(solutions) != len(texts):
    raise ValueError(
      f"{len(solutions)} solutions for {len(texts)} examples: give one each"
    )
  if workers:
    _check_pickles(examples)
  elif getattr(scorer, "needs_workers", False):
    raise ValueError(
      f"workers={workers}: {scorer} evaluates what a policy writes, which must "
      "not happen in the trainer's process: set workers to 1 or more"
    )
  starts, stops = vocabulary.starts, vocabulary.stops
  data = _table.Problems(
    *_table.pad(
      [[*starts, *vocabulary.encode(text)] for text in texts],
      name="prompt_length",
      width=prompt_length,
    ),
    *_table.pad(
      [[]] * len(texts)
      if solutions is None
      else [[*vocabulary.encode(text), stops[0]] for text in solutions],
      name="response_length",
      width=None if solutions is None else response_length,
    ),
  )
  shuffled = np.random.default_rng(seed).permutation(len(texts))
  held_out = math.floor(eval_fraction * len(texts))
  train_pool, eval_pool = shuffled[held_out:], shuffled[:held_out]
  if workers:
    pool = workers_lib.Pool(
      scorer,
      workers=workers,
      time_limit=time_limit,
      memory_limit=memory_limit,
      name=name,
    )
    score = pool.score
  else:
    score = _in_process(name, scorer)
  return types.Task(
    name=name,
    data=data,
    prompts=_table.prompts,
    verify=_verifier(score, examples, vocabulary),
    solutions=None if solutions is None else _table.solutions,
    decode=vocabulary.decode,
    grade=np.zeros(len(texts), np.int32),
    grades=("all",),
    train_pool=np.sort(train_pool).astype(np.int32),
    eval_pool=np.sort(eval_pool).astype(np.int32),
    vocab_size=vocabulary.size,
    prompt_length=data.prompt.shape[1],
    response_length=response_length,
    stop_tokens=stops,
    jittable=False,
  )


def _check_pickles(examples):
  for _, answer in examples:
    try:
      pickle.dumps(answer)
    except Exception as error:
      raise ValueError(
        f"answer={answer!r} cannot be sent to workers: give plain values: "
        f"{error}"
      ) from error


def _in_process(name, scorer):
  """(requests) -> scores, None where the scorer fails, one after the other."""
  logged = False

  def score_one(prompt, completion, answer):
    nonlocal logged
    # SystemExit too: a scorer that calls exit() must not end the run.
    try:
      return _worker.number(scorer(prompt, completion, answer))
    except (Exception, SystemExit) as error:
      if not logged:
        logged = True
        logging.warning(
          "%s: unscorable, further ones are only counted: prompt %r, "
          "completion %r, answer %r: %r",
          *(name, prompt, completion, answer, error),
        )
      return None

  return lambda requests: [score_one(*request) for request in requests]


def _verifier(score, examples, vocabulary):
  """`Task.verify` of scores: numpy in, numpy out."""

  def verify(prompts, rollouts):
    chex.assert_rank(rollouts.tokens, 2)
    ids, rows = np.asarray(prompts.id), jax.tree.map(np.asarray, rollouts)
    tokens = rows.tokens
    reward = np.zeros(len(tokens), np.float32)
    status = np.full(len(tokens), types.ABORTED, np.int32)
    # A slot without a prompt has no rows.
    valid = np.flatnonzero(rows.valid)
    scored = valid[ids[rows.group[valid]] >= 0]
    requests = []
    for row in scored:
      written = tokens[row, : rows.length[row]].tolist()
      if rows.stopped[row] and written and written[-1] in vocabulary.stops:
        written.pop()
      prompt, answer = examples[ids[rows.group[row]]]
      requests.append((prompt, vocabulary.decode(written), answer))
    for row, value in zip(scored, score(requests), strict=True):
      status[row] = types.UNSCORABLE if value is None else types.SCORED
      reward[row] = 0.0 if value is None else value
    return types.Outcome(reward=reward, status=status)

  return verify
