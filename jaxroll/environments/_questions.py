"""How does a file of questions and answers become a task?

JSONL, JSON and Parquet files; which field is what is said by name or as a text
with {names} in it. Tried with:

  GSM8K  Cobbe et al. 2021, 2110.14168
         question="question", answer="answer"      ("... #### 18")
  SVAMP  Patel et al. 2021, 2103.07191
         question="{Body} {Question}", answer="Answer", grade="Type"
"""

import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from jaxroll import types
from jaxroll.environments import _text, answers


def questions(
  path: str,
  *,
  tokenizer,
  response_length: int,
  question: str = "question",
  answer: str = "answer",
  solution: str = "",
  grade: str = "",
  prompt: str = "{question}",
  system: str = "",
  form: str = "chat",
  check: str = "numeric",
  eval_path: str = "",
  eval_fraction: float = 0.1,
  prompt_length: int | None = None,
  longer: str = "refuse",
  seed: int = 0,
  workers: int = 2,
  time_limit: float = 10.0,
  memory_limit: int = 4 * 2**30,
) -> types.Task:
  """A task of the questions in a file.

  A prompt's id is its place among those kept, in the files' order, the file of
  `eval_path` after the other: the same files and arguments give the same ids,
  and with one file rows added at its end leave the ids before them. A question
  that stands there again is dropped, and counted in the log.

  Args:
    path: a .jsonl, .json (a list of objects) or .parquet file.
    tokenizer: of the model, as `models.load` gives it.
    response_length: T, stop token included, >= 1.
    question, answer: each a field's name, or a text with {names} of fields.
    solution: the same for a correct completion, for a supervised start; "" for
      none.
    grade: a field whose values are the grades, in sorted order; "" for one.
    prompt: the user's turn, {question} in it once.
    system: a system turn before it; "" for none.
    form: "chat", by the model's template, or "plain".
    check: of `answers`: "numeric", "exact" or "math_verify".
    eval_path: a file whose questions are held out; "" holds out a share of
      `path`. A question in both is held out.
    eval_fraction: that share, in [0, 1). A hash of the question decides, with
      `seed`: it stays on its side, whatever else stands in the file.
    prompt_length: S; None for the longest prompt's.
    longer: what happens to longer prompts: "refuse" or "drop".
    seed: which questions are held out.
    workers, time_limit, memory_limit: of the check, as for `host_task`; no
      workers are needed for "numeric" and "exact".

  Returns:
    types.Task with `jittable=False`.

  Raises:
    ImportError: for a Parquet file without pyarrow.
    FileNotFoundError: where a file is not there.
    ValueError: for a file that cannot be read, a row without a field, an
      answer that the check cannot use, prompts that are too long; with the
      file and the row.
  """
  if not 0 <= eval_fraction < 1:
    raise ValueError(f"eval_fraction={eval_fraction}: must be in [0, 1)")
  scorer = answers.scorer(check)
  mapping = {"question": question, "answer": answer}
  mapping |= {"solution": solution} if solution else {}
  mapping |= {"grade": grade} if grade else {}
  rows = _rows(path, mapping, check)
  apart = _rows(eval_path, mapping, check) if eval_path else []
  kept, held_out = _distinct(path, rows, apart)
  if not apart:
    held_out = [_share(row.question, seed) < eval_fraction for row in kept]
  name = pathlib.Path(path).stem
  prompts = _text.tokens(
    [row.question for row in kept],
    tokenizer=tokenizer,
    prompt=prompt,
    system=system,
    form=form,
  )
  places = _text.fitting(name, prompts, prompt_length, longer)
  kept = [kept[i] for i in places]
  held_out = np.array([held_out[i] for i in places])
  grades = tuple(sorted({row.grade for row in kept}))
  of_row = np.array([grades.index(row.grade) for row in kept])
  ids = np.argsort(of_row, kind="stable")  # pools list easy prompts first
  return _text.task(
    f"questions:{name}",
    [(row.question, row.answer) for row in kept],
    [prompts[i] for i in places],
    scorer,
    tokenizer=tokenizer,
    grade=of_row,
    grades=grades,
    train_pool=ids[~held_out[ids]],
    eval_pool=ids[held_out[ids]],
    solutions=[row.solution for row in kept] if solution else None,
    response_length=response_length,
    prompt_length=prompt_length,
    workers=workers,
    time_limit=time_limit,
    memory_limit=memory_limit,
  )


class _Row(NamedTuple):
  question: str
  answer: Any
  solution: str = ""
  grade: str = "all"


def _rows(path, mapping, check) -> list[_Row]:
  """A file's rows with their fields by what they are."""
  rows = []
  for place, row in enumerate(_records(pathlib.Path(path))):
    where = f"{path}, row {place}"
    if not isinstance(row, Mapping):
      raise ValueError(f"{where}: {row!r:.200} is no object with fields")
    taken = {what: _take(row, text, where) for what, text in mapping.items()}
    for what in set(taken) - {"answer"}:
      taken[what] = _text.written(taken[what])
    if not isinstance(taken["answer"], (str, int, float)):
      raise ValueError(
        f"{where}: answer={taken['answer']!r:.200} is neither text nor number"
      )
    if check == "exact":
      taken["answer"] = _text.written(taken["answer"])
    if check == "numeric" and answers.number(str(taken["answer"])) is None:
      raise ValueError(
        f"{where}: answer={taken['answer']!r:.200} has no number: use "
        "check='exact' or 'math_verify', or remove the row"
      )
    if not taken["question"].strip():
      raise ValueError(f"{where}: the question is empty: remove the row")
    rows.append(_Row(**taken))
  if not rows:
    raise ValueError(f"{path} has no rows: give at least one")
  return rows


def _take(row, text, where):
  """What a mapping names: a field as it is, or a text made of fields."""
  used = _text.names(text) or [text]
  missing = [name for name in used if row.get(name) is None]
  if missing:
    raise ValueError(
      f"{where} has no {missing}: its fields are {sorted(row)}; name one, or "
      "write a text with {names} of them"
    )
  return row[text] if used == [text] else _text.fill(text, row)


def _records(path):
  """The objects in a file."""
  if not path.is_file():
    raise FileNotFoundError(f"{path}: no such file of questions")
  kinds = {".jsonl": _jsonl, ".json": _json, ".parquet": _parquet}
  if path.suffix not in kinds:
    raise ValueError(f"{path}: must be one of {sorted(kinds)}")
  return kinds[path.suffix](path)


def _jsonl(path):
  rows = []
  with path.open(encoding="utf-8") as file:
    for number, line in enumerate(file, 1):
      if not line.strip():
        continue
      try:
        rows.append(json.loads(line))
      except ValueError as error:
        raise ValueError(f"{path}, line {number}: not JSON: {error}") from error
  return rows


def _json(path):
  try:
    rows = json.loads(path.read_text(encoding="utf-8"))
  except ValueError as error:
    raise ValueError(f"{path}: not JSON: {error}") from error
  if not isinstance(rows, list):
    raise ValueError(f"{path}: must hold a list of objects")
  return rows


def _parquet(path):
  try:
    import pyarrow
    import pyarrow.parquet
  except ImportError as error:
    raise ImportError(
      "Parquet files need the extra 'tasks': pip install 'jaxroll[tasks]'"
    ) from error
  try:
    return pyarrow.parquet.read_table(path).to_pylist()
  except pyarrow.ArrowException as error:
    raise ValueError(f"{path}: not a Parquet file: {error}") from error


def _distinct(path, rows, apart):
  """Each question once, held out where it stands in the file apart."""
  seen = {row.question for row in apart}
  kept, held_out = [], []
  for row in rows:
    if row.question not in seen:
      seen.add(row.question)
      kept.append(row)
      held_out.append(False)
  apart = list({row.question: row for row in reversed(apart)}.values())[::-1]
  lost = len(rows) - len(kept)
  if lost:
    logging.info(
      "%s: dropped %d of %d rows, whose question stands elsewhere, too",
      *(path, lost, len(rows)),
    )
  return kept + apart, held_out + [True] * len(apart)


def _share(question: str, seed: int) -> float:
  """A number in [0, 1) that the question and the seed decide."""
  digest = hashlib.sha256(f"{seed}:{question}".encode()).digest()
  return int.from_bytes(digest[:8], "big") / 2**64
