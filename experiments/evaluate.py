"""How good is a model on a task? Any model, any task, from the command line.

  python -m experiments.evaluate --model=runs/quickstart --workdir=runs/eval
  python -m experiments.evaluate --model=smollm2-135m-instruct \\
    --task=reasoning_gym:chain_sum --k=8 --num_prompts=64 --workdir=runs/smol

--model is the workdir of a training run (its newest checkpoint, or --step), a
Hugging Face folder, a GGUF file or a model's name. --task is a function of
jaxroll.environments; what follows a colon is its first argument, --task_args
are the others, as JSON. Without it a training run is evaluated on its own task.

The workdir gets summary.json (pass@k, avg@k, maj@k with standard errors and
bootstrap intervals, a table by difficulty, lengths), transcripts.jsonl and
report.html. Reading a run that is still training does not disturb it.
With several devices rows are split over them, and weights by --mesh.
"""

import json
import time

import jax
from absl import flags

from experiments import cli
from experiments.evaluation import measures, pages, sampling, subjects
from jaxroll import checkpoint, metrics, rollout

_SAMPLE, _BOOTSTRAP = 0, 1  # what random numbers are for


def run(
  subject: subjects.Subject,
  task,
  workdir: str,
  *,
  k: int = 8,
  num_prompts: int = 64,
  pool: str = "eval",
  temperature: float = 1.0,
  top_k: int = 0,
  top_p: float = 1.0,
  seed: int = 0,
  slots: int = 64,
  prompts_at_once: int = 64,
  resamples: int = 1000,
  answer: str = "",
  mesh: jax.sharding.Mesh | None = None,
) -> dict:
  """Evaluates a model on a task.

  Args:
    subject: of `subjects.load`.
    task: types.Task in the model's tokens.
    workdir: where the files go; empty or new.
    k: rows a prompt, >= 1.
    num_prompts: spread evenly through the pool, >= 1.
    pool: "eval" or "train".
    temperature: >= 0; 0 is greedy, with k = 1.
    top_k, top_p: the sampler's support, 0 and 1 for all tokens.
    seed: of the samples.
    slots: rows decoded at once, >= 1.
    prompts_at_once: prompts whose contexts are held in memory, >= 1.
    resamples: of the bootstrap, >= 100.
    answer: what makes two answers equal for the vote, of
      `sampling.IDENTITIES`; "" takes "row" where the verifier is in the
      graph, and "number" for texts.
    mesh: that the model was loaded on; None for one device.

  Returns:
    What summary.json holds.

  Raises:
    cli.Refused: before anything is written, for a number out of its range.
  """
  began = time.monotonic()
  with cli.refusals():
    _check(k=k, num_prompts=num_prompts, slots=slots, at_once=prompts_at_once)
    if resamples < 100:
      raise ValueError(f"resamples={resamples}: must be at least 100")
    if temperature == 0 and k > 1:
      raise ValueError(
        f"temperature=0 with k={k}: all rows of a prompt are the same; use "
        "--k=1, or a temperature above 0"
      )
    sampler = rollout.sampler(
      temperature, top_k or None, top_p if top_p != 1 else None
    )
    answer = answer or ("row" if task.jittable else "number")
    if answer not in sampling.IDENTITIES:
      raise ValueError(f"answer={answer!r}: one of {sampling.IDENTITIES}")
    ids = sampling.chosen(task, pool, num_prompts)
    workdir = checkpoint.prepare_workdir(workdir, resume=False)
  key = jax.random.key(seed)
  progress = metrics.Progress(len(ids))
  rows = sampling.draw(
    subject.policy,
    subject.params,
    task,
    ids,
    k=k,
    sampler=sampler,
    key=jax.random.fold_in(key, _SAMPLE),
    slots=slots,
    at_once=prompts_at_once,
    identity=answer,
    mesh=mesh,
    note=lambda done: progress.update(done, {}),
  )
  progress.close()
  found = measures.summary(
    rows,
    task.grades,
    key=jax.random.fold_in(key, _BOOTSTRAP),
    resamples=resamples,
  )
  settings = {
    "task": task.name,
    "pool": pool,
    "num_prompts": len(ids),
    "k": k,
    "temperature": temperature,
    "top_k": top_k,
    "top_p": top_p,
    "seed": seed,
    "answer": answer,
    "resamples": resamples,
    "response_length": task.response_length,
  }
  summary = (
    subject.about
    | settings
    | found
    | {
      "wall_seconds": time.monotonic() - began,
      "environment": checkpoint.environment(),
    }
  )
  records = measures.transcripts(rows, task.grades)
  with (workdir / "transcripts.jsonl").open("w", encoding="utf-8") as file:
    for record in records:
      file.write(json.dumps(record) + "\n")
  metrics.write_summary(workdir, summary)
  pages.write(workdir, summary, records)
  return summary


def _check(**counts):
  wrong = [f"{name}={x}" for name, x in counts.items() if x < 1]
  if wrong:
    raise ValueError(f"{', '.join(wrong)}: must be at least 1")


def _define_flags():
  flags.DEFINE_string("model", None, "A run's workdir, a folder, file or name.")
  flags.DEFINE_integer("step", None, "Of a training run; default the newest.")
  flags.DEFINE_string("task", "", "A task's name; default the run's own.")
  flags.DEFINE_string("task_args", "", "Its arguments, a JSON object.")
  flags.DEFINE_integer("k", 8, "Rows a prompt.")
  flags.DEFINE_integer("num_prompts", 64, "Spread evenly through the pool.")
  flags.DEFINE_enum("pool", "eval", ["eval", "train"], "Which prompts.")
  flags.DEFINE_string("workdir", "runs/evaluate", "Where the files go.")
  flags.DEFINE_float("temperature", 1.0, "0 is greedy, with --k=1.")
  flags.DEFINE_integer("top_k", 0, "0: off.")
  flags.DEFINE_float("top_p", 1.0, "1: off.")
  flags.DEFINE_integer("seed", 0, "Of the samples.")
  flags.DEFINE_integer("slots", 64, "Rows decoded at once.")
  flags.DEFINE_integer("prompts_at_once", 64, "Contexts held in memory.")
  flags.DEFINE_integer("resamples", 1000, "Of the bootstrap.")
  flags.DEFINE_enum(
    "answer", "", ["", *sampling.IDENTITIES], "What makes two answers equal."
  )
  flags.DEFINE_list(
    "mesh", ["-1", "1", "1"], "Devices: data,fsdp,tensor; -1 takes the rest."
  )
  flags.mark_flag_as_required("model")


def main():
  args = flags.FLAGS
  with cli.refusals():
    mesh = subjects.mesh(args.mesh)
    subject = subjects.load(args.model, step=args.step, on=mesh)
    task = subjects.task(args.task, args.task_args, subject)
  summary = run(
    subject,
    task,
    args.workdir,
    k=args.k,
    num_prompts=args.num_prompts,
    pool=args.pool,
    temperature=args.temperature,
    top_k=args.top_k,
    top_p=args.top_p,
    seed=args.seed,
    slots=args.slots,
    prompts_at_once=args.prompts_at_once,
    resamples=args.resamples,
    answer=args.answer,
    mesh=mesh,
  )
  print(pages.text(summary))


if __name__ == "__main__":
  _define_flags()
  cli.launch(main)
