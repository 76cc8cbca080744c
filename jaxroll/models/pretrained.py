"""Where is the model? A folder, a GGUF file or a known name: one entry."""

import os
import pathlib
from collections.abc import Callable

from jaxroll.models import gguf, huggingface, smollm2
from jaxroll.models.weights import Pretrained

_NAMES = {"smollm2-135m-instruct": smollm2.fetch}


def load(
  source: str | os.PathLike,
  *,
  dtype: str = "float32",
  shardings: Callable | None = None,
) -> Pretrained:
  """A pretrained model: configuration, parameters and tokenizer.

  Args:
    source: a Hugging Face folder, a .gguf file, or "smollm2-135m-instruct",
      which is fetched the first time.
    dtype: of the parameters: "float32", "bfloat16" or "float16".
    shardings: (tree of ShapeDtypeStruct) -> tree of shardings, for example
      `lambda tree: parallel.shardings(tree, mesh)`: every device's part is
      read alone. None gives numpy arrays.

  Returns:
    `Pretrained`.

  Raises:
    ImportError: without the packages that read it, with the command to
      install them.
    FileNotFoundError: where `source` is neither a path nor a known name.
    ValueError: for a model that the transformer is not, or a broken file; all
      that is wrong is listed.
  """
  options = {"dtype": dtype, "shardings": shardings}
  path = pathlib.Path(source)
  if path.is_dir():
    return huggingface.load(path, **options)
  if path.is_file():
    if path.suffix != ".gguf":
      raise ValueError(f"{path}: must be a folder or a file named .gguf")
    return gguf.load(path, **options)
  fetch = _NAMES.get(str(source).lower())
  if fetch is None:
    raise FileNotFoundError(
      f"{str(source)!r} is neither a folder, nor a .gguf file, nor one of "
      f"{tuple(_NAMES)}"
    )
  return gguf.load(fetch(), **options)
