"""How do tensors of files become parameters? One at a time, into place.

Layers lie stacked here and one by one in files. A stack is allocated once and
each layer is read into its place, so that no second copy exists; with
shardings each device's part is read alone.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll.models import tokenizer as tokenizer_lib
from jaxroll.models.config import Config
from jaxroll.models.families import Tensor

DTYPES = ("float32", "bfloat16", "float16")


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """A model with its weights.

  Attributes:
    config: sizes of the transformer.
    params: what `models.policy(config).apply` takes; numpy arrays unless they
      were loaded with shardings.
    tokenizer: its tokenizer, chat template and stop tokens; None where its
      folder has none.
    folder: the Hugging Face folder it came from; its tokenizer goes with an
      export.
    details: what a `config.json` says beyond `config`: max_position_embeddings
      and the numbers of special tokens.
  """

  config: Config
  params: Any
  tokenizer: tokenizer_lib.Tokenizer | None = None
  folder: pathlib.Path | None = None
  details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def check_dtype(dtype: str) -> np.dtype:
  """The dtype of a name, or an error that lists the names.

  Args:
    dtype: "float32", "bfloat16" or "float16".

  Returns:
    The numpy dtype.

  Raises:
    ValueError: for another one.
  """
  if dtype not in DTYPES:
    raise ValueError(f"dtype={dtype!r}: must be one of {DTYPES}")
  return np.dtype(jnp.dtype(dtype))


def check_shapes(
  source: Any,
  found: Mapping[str, Iterable[int]],
  expected: Mapping[str, tuple[int, ...]],
  more: Iterable[str] = (),
):
  """Refuses a file that holds other tensors than its architecture has.

  Args:
    source: the file or folder, for the message.
    found: name -> shape of what is there.
    expected: name -> shape of what must be.
    more: what else is wrong.

  Raises:
    ValueError: with every missing and surplus tensor and every wrong shape.
  """
  wrong = [f"missing {name}" for name in sorted(set(expected) - set(found))]
  wrong += [f"surplus {name}" for name in sorted(set(found) - set(expected))]
  for name in sorted(set(found) & set(expected)):
    shape = tuple(int(n) for n in found[name])
    if shape != expected[name]:
      wrong.append(f"{name} has shape {shape}, not {expected[name]}")
  wrong += more
  if wrong:
    raise ValueError(f"{source}: {'; '.join(wrong)}")


def fill(
  config: Config,
  table: Iterable[Tensor],
  read: Callable,
  *,
  dtype: np.dtype,
  shardings: Callable | None = None,
):
  """Parameters, read tensor by tensor.

  Args:
    config: sizes of the transformer.
    table: its parameters, `families.tensors(config)`.
    read: (tensor, layer, index) -> that part of one layer's parameter; index
      is a slice for each axis of `tensor.shape`.
    dtype: of the parameters.
    shardings: (tree of ShapeDtypeStruct) -> tree of shardings, for example
      `lambda tree: parallel.shardings(tree, mesh)`; None gives numpy arrays.

  Returns:
    The nested dict that `models.policy(config).apply` takes.
  """
  table = list(table)
  lead = {True: (config.layers,), False: ()}

  def struct(tensor):
    shape = lead[tensor.stacked] + tensor.shape
    return jax.ShapeDtypeStruct(shape, dtype)

  def part(tensor, index):
    bounds = [s.indices(n)[:2] for s, n in zip(index, struct(tensor).shape)]
    out = np.empty([stop - start for start, stop in bounds], dtype)
    inner = tuple(slice(*b) for b in bounds[int(tensor.stacked) :])
    if not tensor.stacked:
      out[...] = read(tensor, 0, inner)
      return out
    for place, layer in enumerate(range(*bounds[0])):
      out[place] = read(tensor, layer, inner)
    return out

  placed = None
  if shardings is not None:
    placed = shardings(_tree({t.path: struct(t) for t in table}))
  made = {}
  for tensor in table:
    shape = struct(tensor).shape
    if placed is None:
      made[tensor.path] = part(tensor, (slice(None),) * len(shape))
      continue
    where = placed
    for key in tensor.path:
      where = where[key]
    made[tensor.path] = jax.make_array_from_callback(
      shape, where, lambda index, tensor=tensor: part(tensor, index)
    )
  return _tree(made)


def _tree(leaves):
  """A nested dict from paths."""
  tree = {}
  for path, leaf in leaves.items():
    branch = tree
    for key in path[:-1]:
      branch = branch.setdefault(key, {})
    branch[path[-1]] = leaf
  return tree
