"""What a run writes beside its metrics: allocations, transcripts, summary.

With several processes all of them call these functions, which gather what is
spread over devices, and the first one writes.
"""

import json
import os
import pathlib

import numpy as np

from jaxroll import metrics, parallel, report, types

_ALLOCATION, _TRANSCRIPTS = "allocation.npz", "transcripts.jsonl"
_SHOWN = 24  # transcripts of one evaluation


class Record:
  """Where rollouts went and what was written, by step.

  Args:
    workdir: the run's directory.
    task: decodes prompts and rows.
  """

  def __init__(self, workdir, task: types.Task):
    self._workdir = pathlib.Path(workdir)
    self._decode = task.decode
    self._rows = {"step": [], "id": [], "solve_rate": [], "count": []}
    path = self._workdir / _ALLOCATION
    if path.exists():
      with np.load(path) as saved:
        self._rows = {name: list(saved[name]) for name in self._rows}

  def truncate(self, step: int) -> None:
    """Drops what later steps wrote: a resumed run writes it again."""
    kept = [at for at, s in enumerate(self._rows["step"]) if s <= step]
    self._rows = {k: [v[at] for at in kept] for k, v in self._rows.items()}
    if parallel.is_first():
      metrics.truncate_records(self._workdir / _TRANSCRIPTS, step)

  def allocation(self, step: int, output) -> None:
    """Notes how many rows each prompt got, and what was believed of it."""
    ids, rate, count = parallel.to_host(
      (output.prompts.id, output.solve_rate, output.counts)
    )
    for name, value in zip(self._rows, (step, ids, rate, count)):
      self._rows[name].append(value)

  def save(self) -> None:
    """Writes allocation.npz, whole or not at all."""
    if not parallel.is_first():
      return
    partial = self._workdir / f"{_ALLOCATION}.tmp"
    with partial.open("wb") as file:
      np.savez(file, **{k: np.asarray(v) for k, v in self._rows.items()})
    os.replace(partial, self._workdir / _ALLOCATION)

  def transcripts(self, step: int, samples) -> None:
    """Appends the first row of some evaluated prompts."""
    contexts, rows, outcome = parallel.to_host(
      (samples.contexts, samples.rollouts, samples.outcome)
    )
    if not parallel.is_first():
      return
    number, k = samples.correct.shape
    shown = np.linspace(0, number - 1, min(_SHOWN, number)).astype(int)
    with (self._workdir / _TRANSCRIPTS).open("a", encoding="utf-8") as file:
      for prompt in shown:
        row = prompt * k
        line = {
          "step": step,
          "prompt": self._decode(
            contexts.tokens[prompt][: contexts.length[prompt]]
          ),
          "completion": self._decode(rows.tokens[row][: rows.length[row]]),
          "reward": float(outcome.reward[row]),
          "length": int(rows.length[row]),
          "stopped": bool(rows.stopped[row]),
        }
        file.write(json.dumps(line) + "\n")


def check_never_trained(workdir) -> None:
  """Refuses to start over where steps were done and no checkpoint is left.

  Raises:
    ValueError: naming how many steps the workdir's records hold.
  """
  done = max((r["step"] for r in metrics.read_metrics(workdir)), default=0)
  if done:
    raise ValueError(
      f"{workdir} holds the records of {done} steps but no checkpoint: restore "
      "its checkpoints/, or choose another --workdir"
    )


def finish(workdir, about: dict) -> dict:
  """Writes summary.json and the report.

  Args:
    workdir: the run's directory, its metrics complete.
    about: what the summary says besides.

  Returns:
    What summary.json holds; on processes other than the first `about` alone.
  """
  if not parallel.is_first():
    return about
  summary = summarise(metrics.read_metrics(workdir)) | about
  metrics.write_summary(workdir, summary)
  report.write_report(workdir)
  return summary


def summarise(records: list[dict]) -> dict:
  """Totals and ends of a run, from its metrics.

  Args:
    records: of metrics.jsonl, step 0 (evaluation only) first.

  Returns:
    The keys of summary.json that metrics determine. `wasted_tokens` are those
    generated and never trained on. `compiles_after_first_step` leaves out the
    first step of each process, `wall_seconds` what a kill has undone.
  """
  steps = [r for r in records if r["step"] > 0]
  evaluated = [r for r in records if "eval/pass@1" in r]

  def total(name):
    return int(sum(r[name] for r in steps))

  def evaluation(r):
    return {
      "step": r["step"],
      "pass@1": r["eval/pass@1"],
      "pass@1_standard_error": r["eval/pass@1_se"],
      "k": r["eval_k"],
      "pass@k": r["eval/pass@k"],
      "pass@k_standard_error": r["eval/pass@k_se"],
    }

  generated, trained = total("generated_tokens"), total("trained_tokens")
  return {
    "steps": len(steps),
    "optimiser_steps": total("optimiser_steps"),
    "rollouts": total("rollouts"),
    "generated_tokens": generated,
    "trained_tokens": trained,
    "wasted_tokens": generated - trained,
    "eval_before": evaluation(evaluated[0]),
    "eval_after": evaluation(evaluated[-1]),
    "zero_variance_share": float(
      np.mean([r["zero_variance_share"] for r in steps])
    ),
    "mixed_rollout_share": sum(
      r["mixed_rollout_share"] * r["rollouts"] for r in steps
    )
    / max(1, total("rollouts")),
    "sampler_gap_max": max(r["sampler_gap_max"] for r in steps),
    "skipped_nonfinite": steps[-1]["skipped_nonfinite"],
    "compiles_after_first_step": sum(
      r["compiles"] for r in steps if r["process_step"] > 1
    ),
    "resumed_after": [
      r["step"] - 1 for r in steps if r["process_step"] == 1 and r["step"] > 1
    ],
    "wall_seconds": records[-1]["wall_seconds"],
  }
