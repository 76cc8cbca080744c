"""From a training run to a folder that Transformers loads.

  python -m experiments.export --model=runs/smollm2 --folder=exported/smollm2

--model is the workdir of a training run (its newest checkpoint, or --step), or
a GGUF file or a model's name. Adapters are merged into their base. Tokenizer,
chat template and stop tokens go with the weights; a model that was new when its
run began has none, for its task had tokens of its own.
"""

import pathlib

from absl import flags

from experiments import cli
from experiments.evaluation import subjects
from jaxroll import models


def run(
  model: str,
  folder: str,
  *,
  step: int | None = None,
  dtype: str = "float32",
) -> pathlib.Path:
  """Writes a model as a Hugging Face folder.

  Args:
    model, step: of `subjects.load`.
    folder: a new one, or an empty one.
    dtype: of the weights written: "float32", "bfloat16" or "float16".

  Returns:
    The folder.

  Raises:
    cli.Refused: no such model, a folder that holds something, another dtype.
  """
  with cli.refusals():
    subject = subjects.load(model, step=step)
    try:
      return models.export(folder, subject.whole(), dtype=dtype)
    except (FileExistsError, ImportError) as error:
      raise ValueError(str(error)) from error


def _define_flags():
  flags.DEFINE_string("model", None, "A run's workdir, a file or a name.")
  flags.DEFINE_integer("step", None, "Of a training run; default the newest.")
  flags.DEFINE_string("folder", None, "Where the model goes; new or empty.")
  flags.DEFINE_enum(
    "dtype", "float32", ["float32", "bfloat16", "float16"], "Of the weights."
  )
  flags.mark_flags_as_required(["model", "folder"])


def main():
  args = flags.FLAGS
  print(run(args.model, args.folder, step=args.step, dtype=args.dtype))


if __name__ == "__main__":
  _define_flags()
  cli.launch(main)
