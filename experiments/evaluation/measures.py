"""From rows to numbers: how good, how sure, how long?"""

import jax
import jax.numpy as jnp
import numpy as np

from experiments.evaluation.sampling import Rows
from jaxroll import evaluate, types

LEVEL = 0.95


def powers(k: int) -> list[int]:
  """1, 2, 4 ... and k itself.

  Example:
    >>> powers(6)
    [1, 2, 4, 6]
  """
  return sorted({*(2**i for i in range(k.bit_length())), k})


def summary(rows: Rows, grades, *, key, resamples: int) -> dict:
  """What was measured, as nested dicts.

  Args:
    rows: N prompts with k rows each.
    grades: names of the task's grades.
    key: for the bootstrap.
    resamples: of the bootstrap.

  Returns:
    "pass@k" by k, "avg@k" (mean reward), "maj@k", each with mean, standard
    error over prompts and the ends of a 95 % bootstrap interval; "by_grade";
    "length"; counts of rows.
  """
  return {
    **_rates(rows, key, resamples),
    "by_grade": _by_grade(rows, grades),
    "length": _lengths(rows),
    "rows": {
      "drawn": int(rows.correct.size),
      "scored": int(rows.scored.sum()),
      "unscorable": int((rows.status == types.UNSCORABLE).sum()),
      "right": int(rows.correct.sum()),
      "stopped": int(rows.stopped.sum()),
      "without_answer": int((rows.answer < 0).sum()),
      "generated_tokens": int(rows.length.sum()),
    },
    "prompts_by_right_rows": np.bincount(
      rows.correct.sum(axis=1), minlength=rows.correct.shape[1] + 1
    ).tolist(),
  }


def _rates(rows, key, resamples) -> dict:
  ks = powers(rows.correct.shape[1])

  def estimates(correct, scored, answer, reward):
    return [
      *(evaluate.pass_at_k(correct, k, scored) for k in ks),
      evaluate.avg_at_k(reward, scored),
      evaluate.maj_at_k(correct, answer, scored),
    ]

  def means(*arrays):
    return jnp.stack([x.mean for x in estimates(*arrays)])

  arrays = rows.correct, rows.scored, rows.answer, rows.reward
  found = jax.device_get(jax.jit(estimates)(*arrays))

  @jax.jit
  def resampled(arrays, key):
    return evaluate.bootstrap(
      means, *arrays, key=key, resamples=resamples, level=LEVEL
    )

  low, high = jax.device_get(resampled(arrays, key))
  shown = [
    _estimate(x) | {"low": float(a), "high": float(b)}
    for x, a, b in zip(found, low, high)
  ]
  return {
    "pass@k": {str(k): x for k, x in zip(ks, shown)},
    "avg@k": shown[-2],
    "maj@k": shown[-1],
  }


def _estimate(found) -> dict:
  return {
    "mean": float(found.mean),
    "standard_error": float(found.standard_error),
    "prompts": int(found.count),
    "omitted": int(found.omitted),
  }


def _by_grade(rows: Rows, grades) -> list[dict]:
  k = rows.correct.shape[1]
  table = []
  for grade in np.unique(rows.grade):
    own = rows.grade == grade
    correct, scored = rows.correct[own], rows.scored[own]
    once, some, most = jax.device_get(
      (
        evaluate.pass_at_k(correct, 1, scored),
        evaluate.pass_at_k(correct, k, scored),
        evaluate.maj_at_k(correct, rows.answer[own], scored),
      )
    )
    table.append(
      {
        "grade": str(grades[grade]),
        "prompts": int(own.sum()),
        "pass@1": float(once.mean),
        "pass@1_standard_error": float(once.standard_error),
        f"pass@{k}": float(some.mean),
        f"maj@{k}": float(most.mean),
        "mean_length": float(rows.length[own].mean()),
        "stopped_share": float(rows.stopped[own].mean()),
      }
    )
  return table


def _lengths(rows: Rows) -> dict:
  length = rows.length

  def mean(where):
    return float(length[where].mean()) if where.any() else None

  return {
    "mean": float(length.mean()),
    **{
      name: float(np.quantile(length, share))
      for name, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99))
    },
    "longest": int(length.max()),
    "mean_right": mean(rows.correct),
    "mean_wrong": mean(rows.scored & ~rows.correct),
    "stopped_share": float(rows.stopped.mean()),
  }


def transcripts(rows: Rows, grades) -> list[dict]:
  """A record of every row.

  Args:
    rows: N prompts with k rows each.
    grades: names of the task's grades.

  Returns:
    N k dicts of JSON values, a prompt's next to each other.
  """
  return [
    {
      "id": int(rows.ids[i]),
      "grade": str(grades[rows.grade[i]]),
      "prompt": rows.prompt[i],
      "row": j,
      "completion": rows.completion[i][j],
      "answer": int(rows.answer[i, j]),
      "reward": float(rows.reward[i, j]),
      "scored": bool(rows.scored[i, j]),
      "length": int(rows.length[i, j]),
      "stopped": bool(rows.stopped[i, j]),
    }
    for i in range(len(rows.ids))
    for j in range(rows.correct.shape[1])
  ]
