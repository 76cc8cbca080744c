"""What runs of reasoning-gym, and where? Its generators and its verifiers.

Neither runs in the trainer's process. Problems are generated in a fresh
interpreter (this file, run as a program) whose hashes and global random
numbers are fixed: some data sets depend on them, and a prompt's id has to mean
the same problem in every run. Verifiers evaluate what a policy writes: `Scorer`
goes into worker processes (`workers.Pool`).

Reference: Stojanovski et al. 2025, REASONING GYM, 2505.24760.
"""

import os
import pickle
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

# What of a completion is the answer that a verifier gets.
EXTRACTS = ("final", "number", "text")


class Problem(NamedTuple):
  """One generated problem.

  Attributes:
    question: its text.
    answer: a correct answer; None where its data set gives none.
    entry: what its verifier needs, pickled.
  """

  question: str
  answer: str | None
  entry: bytes


def extract(completion: str, how: str) -> str:
  """The answer in a completion.

  Args:
    completion: what the policy wrote.
    how: "final": the content of the last <answer> element, else of the last
      boxed expression, else what follows "####", else all of it. "number": the
      last number in that. "text": all of it.

  Returns:
    A text without spaces around it; "" where there is no number.

  Example:
    >>> extract("So <answer> 1,234 </answer>!", "final")
    '1,234'
    >>> extract("12 - 4 = 8.", "number")
    '8'
  """
  if how == "text":
    return completion.strip()
  from jaxroll.environments import answers

  before, closed, _ = completion.rpartition("</answer>")
  _, opened, text = before.rpartition("<answer>")
  if closed and opened:
    text = text.partition("</answer>")[0]
  else:
    text = answers.final(completion)
  if how == "final":
    return text.strip()
  found = answers.number(text)
  return "" if found is None else _plain(found[0])


def _plain(value: Fraction) -> str:
  """A number as a decimal where it has finitely many digits, else a/b."""
  left, places = value.denominator, 0
  while left % 10 == 0:
    left, places = left // 10, places + 1
  while left % 2 == 0 or left % 5 == 0:
    left, places = left // (2 if left % 2 == 0 else 5), places + 1
  if left != 1:
    return str(value)
  digits = f"{abs(int(value * 10**places)):0{places + 1}d}"
  sign = "-" if value < 0 else ""
  if not places:
    return sign + digits
  return f"{sign}{digits[:-places]}.{digits[-places:]}"


class Scorer:
  """A data set's own verifier as a scorer of `workers.Pool`.

  The answer of a request is a pair: which of the parameter sets the problem is
  from, and `Problem.entry`.
  """

  needs_workers = True

  def __init__(
    self,
    data_set: str,
    parameters: Sequence[Mapping[str, Any]],
    *,
    extract: str = "final",
    least_score: float = 0.0,
  ):
    """Says how answers are scored.

    Args:
      data_set: its name.
      parameters: of each level.
      extract: what of a completion is its answer, one of `EXTRACTS`.
      least_score: scores below it count as 0, in [0, 1].
    """
    if extract not in EXTRACTS:
      raise ValueError(f"extract={extract!r}: must be one of {EXTRACTS}")
    if not 0 <= least_score <= 1:
      raise ValueError(f"least_score={least_score}: must be in [0, 1]")
    self._data_set = data_set
    self._parameters = [dict(p) for p in parameters]
    self._extract = extract
    self._least = least_score
    self._made = None

  def load(self) -> None:
    """Imports the package and makes the data sets."""
    self._made = [_make(self._data_set, p, 0, 1) for p in self._parameters]

  def __call__(self, prompt: str, completion: str, answer: Any) -> float:
    """The verifier's score, in [0, 1]."""
    if self._made is None:
      self.load()
    level, entry = answer
    score = self._made[level].score_answer(
      extract(completion, self._extract), pickle.loads(entry)
    )
    return score if score >= self._least else 0.0


def generate(
  data_set: str,
  parameters: Sequence[Mapping[str, Any]],
  *,
  count: int,
  seed: int,
) -> list[list[Problem]]:
  """Problems of each level, the same ones whenever it is called.

  Args:
    data_set: its name.
    parameters: of each level.
    count: distinct problems wanted of each, >= 1; a level may have fewer.
    seed: of the problems.

  Returns:
    A list of problems for each level; no question stands in two places.

  Raises:
    ImportError: without `reasoning_gym`.
    ValueError: for an unknown data set, or parameters that it refuses, with
      the names that there are.
  """
  plan = (data_set, [dict(p) for p in parameters], count, seed)
  # Paths are given: the interpreter may be another folder's.
  done = subprocess.run(
    [sys.executable, "-P", __file__],
    input=pickle.dumps((sys.path, plan)),
    stdout=subprocess.PIPE,
    env=os.environ | {"PYTHONHASHSEED": "0"},
    check=False,
  )
  if done.returncode:
    raise ValueError(
      f"reasoning_gym:{data_set}: its generator ended with code "
      f"{done.returncode}: see what it wrote above"
    )
  kind, found = pickle.loads(done.stdout)
  if kind == "import":
    raise ImportError(
      "reasoning-gym needs the extra 'tasks': pip install 'jaxroll[tasks]': "
      f"{found}"
    )
  if kind == "value":
    raise ValueError(found)
  return [[Problem(*problem) for problem in level] for level in found]


def _make(data_set, parameters, seed, size):
  """A data set of the package."""
  import reasoning_gym.factory

  if data_set == "composite":
    from reasoning_gym.composite import DatasetSpec

    specs = [DatasetSpec(**spec) for spec in parameters.get("datasets", ())]
    parameters = {**parameters, "datasets": specs}
  return reasoning_gym.factory.create_dataset(
    data_set, **parameters, seed=seed, size=size
  )


def _problems(data_set, parameters, count, seed):
  """("made", levels), or what is wrong."""
  try:
    import numpy
    import reasoning_gym.factory
  except ImportError as error:
    return "import", str(error)
  known = reasoning_gym.factory.DATASETS
  if data_set not in known:
    return "value", f"data_set={data_set!r}: must be one of {sorted(known)}"
  fields = sorted(
    set(known[data_set][1].__dataclass_fields__) - {"seed", "size"}
  )
  seen, levels = set(), []
  for level, own in enumerate(parameters):
    # Of a small level most draws are repeats.
    draws = 4 * count + 1000
    first = seed + level * 1_000_003
    try:
      made = _make(data_set, own, first, draws)
    except Exception as error:
      return "value", (
        f"reasoning_gym:{data_set} refuses parameters={own}: "
        f"{type(error).__name__}: {error}; it takes {fields}"
      )
    problems, failed = [], []
    for place in range(draws):
      if len(problems) == count:
        break
      # Whatever else was drawn before.
      random.seed(first + place)
      numpy.random.seed((first + place) % 2**32)
      try:
        entry = made[place]
      except Exception as error:
        failed.append(f"{type(error).__name__}: {error}")
        if len(failed) > 100 + len(problems):
          break
        continue
      if entry["question"] not in seen:
        seen.add(entry["question"])
        answer = entry["answer"]
        answer = None if answer is None else str(answer)
        problems.append((entry["question"], answer, pickle.dumps(entry)))
    if not problems:
      return "value", (
        f"reasoning_gym:{data_set} with parameters={own} has no problem that "
        f"is not in an easier level: {failed[:1]}"
      )
    levels.append(problems)
  return "made", levels


def main() -> None:
  """Reads a plan from the standard input, writes problems to the output."""
  # What generators print must not stand in it.
  output = os.fdopen(os.dup(1), "wb")
  os.dup2(2, 1)
  sys.path[:], plan = pickle.load(sys.stdin.buffer)
  pickle.dump(_problems(*plan), output)
  output.close()


if __name__ == "__main__":
  main()
