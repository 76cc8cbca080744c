"""How does a Hugging Face folder become a policy, and a policy a folder?

A folder holds `config.json`, safetensors in one file or in several with an
index, and a tokenizer. Tensors are read lazily, each device's part alone, and
written one file at a time; nothing in a folder is executed.

Files are read and written by `safetensors`: pip install 'jaxroll[lm]'.
"""

import contextlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroll.models import families, weights
from jaxroll.models import tokenizer as tokenizer_lib
from jaxroll.models.weights import Pretrained

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_STORED = ("F32", "F16", "BF16")
_DETAILS = (
  "max_position_embeddings",
  "bos_token_id",
  "eos_token_id",
  "pad_token_id",
)
_TOKENIZER_FILES = (
  "tokenizer.json",
  "tokenizer_config.json",
  "tokenizer.model",
  "special_tokens_map.json",
  "added_tokens.json",
  "vocab.json",
  "merges.txt",
  "chat_template.jinja",
)


def load(
  folder: str | os.PathLike,
  *,
  dtype: str = "float32",
  shardings: Callable | None = None,
) -> Pretrained:
  """Reads a model from a Hugging Face folder.

  Args:
    folder: with `config.json` and safetensors.
    dtype: of the parameters.
    shardings: see `weights.fill`.

  Returns:
    `Pretrained`; its tokenizer is None where there is no `tokenizer.json`.

  Raises:
    ImportError: without the `safetensors` package.
    FileNotFoundError: where `config.json` or the weights are not there.
    ValueError: for another architecture, a missing or surplus tensor, one of
      the wrong shape or type; all of them are listed.
  """
  safetensors = _package()
  folder = pathlib.Path(folder)
  wanted = weights.check_dtype(dtype)
  values = _json(folder / "config.json")
  try:
    config = families.from_hf(values)
  except ValueError as error:
    raise ValueError(f"{folder / 'config.json'}: {error}") from error
  table = families.tensors(config)
  with contextlib.ExitStack() as stack:
    slices = {}
    for path in _files(folder):
      file = stack.enter_context(safetensors.safe_open(path, framework="numpy"))
      slices |= {name: file.get_slice(name) for name in file.keys()}
    slices = {n: s for n, s in slices.items() if not _redundant(n, config)}
    strange = [
      f"{name} is {s.get_dtype()}, not one of {_STORED}"
      for name, s in sorted(slices.items())
      if s.get_dtype() not in _STORED
    ]
    found = {name: s.get_shape() for name, s in slices.items()}
    weights.check_shapes(folder, found, _shapes(config, table), strange)

    def read(tensor, layer, index):
      if not tensor.by_expert:
        return _turned(slices[tensor.hf.format(layer=layer)], tensor, index)
      names = (
        tensor.hf.format(layer=layer, expert=e)
        for e in range(tensor.shape[0])[index[0]]
      )
      return np.stack([_turned(slices[n], tensor, index[1:]) for n in names])

    params = weights.fill(
      config, table, read, dtype=wanted, shardings=shardings
    )
  tokenizer = None
  if (folder / "tokenizer.json").is_file():
    tokenizer = tokenizer_lib.from_folder(folder)
  details = {n: values[n] for n in _DETAILS if values.get(n) is not None}
  return Pretrained(config, params, tokenizer, folder, details)


def export(
  folder: str | os.PathLike,
  model: Pretrained,
  *,
  dtype: str = "float32",
  shard_bytes: int = 5_000_000_000,
) -> pathlib.Path:
  """Writes a model as a Hugging Face folder that Transformers loads.

  The folder appears when it is complete. With several processes call it on
  one, with parameters that it can read whole.

  Args:
    folder: a new one, or an empty one.
    model: what to write; `dataclasses.replace(loaded, params=trained)` keeps
      the tokenizer and the numbers of special tokens.
    dtype: of the weights written: "float32", "bfloat16" or "float16".
    shard_bytes: weights beyond it are written in several files.

  Returns:
    The folder.

  Raises:
    ImportError: without the `safetensors` package.
    FileExistsError: where the folder has something in it.
    ValueError: for a transformer that no family describes, or parameters that
      are not its own; all that is wrong is listed.
  """
  _package()
  folder = pathlib.Path(folder)
  wanted = weights.check_dtype(dtype)
  if shard_bytes < 1:
    raise ValueError(f"shard_bytes={shard_bytes}: must be at least 1")
  if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
    raise FileExistsError(f"{folder} is not empty: give a new folder")
  values = _values(model) | {"torch_dtype": dtype}
  pieces = list(_pieces(model))
  folder.parent.mkdir(parents=True, exist_ok=True)
  scratch = pathlib.Path(
    tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent)
  )
  try:
    _write_json(scratch / "config.json", values)
    _write_weights(scratch, pieces, wanted, shard_bytes)
    _write_tokenizer(scratch, model)
    scratch.chmod(0o755)
    if folder.exists():
      folder.rmdir()
    os.replace(scratch, folder)
  finally:
    shutil.rmtree(scratch, ignore_errors=True)
  return folder


def _package():
  try:
    import safetensors
    import safetensors.numpy  # noqa: F401
  except ImportError as error:
    raise ImportError(
      "Hugging Face folders need safetensors: pip install 'jaxroll[lm]'"
    ) from error
  return safetensors


def _json(path) -> dict[str, Any]:
  if not path.is_file():
    raise FileNotFoundError(f"{path}: no such file; is it a model's folder?")
  values = json.loads(path.read_text(encoding="utf-8"))
  if not isinstance(values, dict):
    raise ValueError(f"{path}: holds no object")
  return values


def _files(folder) -> list[pathlib.Path]:
  """The safetensors of a folder: the single one, or those its index names."""
  if (folder / _SINGLE).is_file():
    return [folder / _SINGLE]
  if not (folder / _INDEX).is_file():
    raise FileNotFoundError(
      f"{folder} has neither {_SINGLE} nor {_INDEX}: weights in other formats "
      "are converted by Transformers' save_pretrained"
    )
  named = _json(folder / _INDEX).get("weight_map")
  names = sorted(set(named.values())) if isinstance(named, dict) else []
  # An index names its neighbours; a path would lead out of the folder.
  wrong = [n for n in names if pathlib.PurePath(n).name != n]
  wrong += [n for n in names if n not in wrong and not (folder / n).is_file()]
  if wrong or not names:
    raise ValueError(
      f"{folder / _INDEX}: names no files of this folder: {wrong}"
    )
  return [folder / name for name in names]


def _redundant(name, config) -> bool:
  """Whether a tensor repeats what the configuration says."""
  if name.endswith("rotary_emb.inv_freq"):
    return True
  return config.tied_embedding and name == "lm_head.weight"


def _turned(source, tensor, index):
  """That part of a tensor of a file, with the axes as they lie here."""
  if not tensor.transposed:
    return source[index]
  return source[index[::-1]].T


def _shapes(config, table) -> dict[str, tuple[int, ...]]:
  """Shape of every tensor by its name in a checkpoint."""
  shapes = {}
  for tensor in table:
    for layer in range(config.layers if tensor.stacked else 1):
      if not tensor.by_expert:
        shapes[tensor.hf.format(layer=layer)] = tensor.file_shape
        continue
      for expert in range(tensor.shape[0]):
        name = tensor.hf.format(layer=layer, expert=expert)
        shapes[name] = tensor.file_shape[1:]
  return shapes


def _values(model) -> dict[str, Any]:
  """What goes into `config.json`."""
  stops = getattr(model.tokenizer, "stops", ())
  values = {"max_position_embeddings": 32_768, "bos_token_id": None}
  values["eos_token_id"] = list(stops) or None
  values |= {n: v for n, v in model.details.items() if n in _DETAILS}
  return values | families.to_hf(model.config)


def _pieces(model):
  """(name, shape, thunk of the array) of every tensor of a checkpoint."""
  table = families.tensors(model.config)
  leaves = {}
  for tensor in table:
    leaf = model.params
    for key in tensor.path:
      leaf = leaf.get(key) if isinstance(leaf, dict) else None
    leaves[tensor.path] = leaf
  lead = (model.config.layers,)
  expected = {
    "/".join(t.path): (lead if t.stacked else ()) + t.shape for t in table
  }
  found = {
    "/".join(path): leaf.shape
    for path, leaf in leaves.items()
    if hasattr(leaf, "shape")
  }
  more = [f"surplus {n}" for n in sorted(_paths(model.params) - set(expected))]
  weights.check_shapes("parameters", found, expected, more)

  def take(tensor, layer, expert=None):
    leaf = leaves[tensor.path]
    leaf = leaf[layer] if tensor.stacked else leaf
    leaf = np.asarray(leaf if expert is None else leaf[expert])
    return leaf.T if tensor.transposed else leaf

  for tensor in table:
    for layer in range(model.config.layers if tensor.stacked else 1):
      if not tensor.by_expert:
        name = tensor.hf.format(layer=layer)
        yield name, tensor.file_shape, (take, tensor, layer)
        continue
      for expert in range(tensor.shape[0]):
        name = tensor.hf.format(layer=layer, expert=expert)
        yield name, tensor.file_shape[1:], (take, tensor, layer, expert)


def _paths(tree, prefix=""):
  if not isinstance(tree, dict):
    return {prefix}
  inner = [_paths(v, f"{prefix}/{k}".lstrip("/")) for k, v in tree.items()]
  return set().union(*inner)


def _write_weights(folder, pieces, dtype, shard_bytes):
  """Files of at most `shard_bytes`, unless one tensor is larger alone."""
  import safetensors.numpy

  files, used = [[]], 0
  total = 0
  for piece in pieces:
    size = int(np.prod(piece[1])) * dtype.itemsize
    if files[-1] and used + size > shard_bytes:
      files.append([])
      used = 0
    files[-1].append(piece)
    used += size
    total += size
  index = {}
  for number, file in enumerate(files, 1):
    name = _SINGLE
    if len(files) > 1:
      name = f"model-{number:05d}-of-{len(files):05d}.safetensors"
    held = {
      tensor: np.ascontiguousarray(take(*which), dtype)
      for tensor, _, (take, *which) in file
    }
    safetensors.numpy.save_file(held, folder / name, {"format": "pt"})
    index |= dict.fromkeys(held, name)
  if len(files) > 1:
    _write_json(
      folder / _INDEX,
      {"metadata": {"total_size": total}, "weight_map": index},
    )


def _write_tokenizer(folder, model):
  """The source's tokenizer and generation settings, or what is known."""
  source = model.folder
  for name in _TOKENIZER_FILES:
    if source is not None and (source / name).is_file():
      shutil.copyfile(source / name, folder / name)
  text = getattr(model.tokenizer, "json", None)
  if text is not None and not (folder / "tokenizer.json").exists():
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    _write_json(folder / "tokenizer_config.json", _special(model))
    template = model.tokenizer.template
    if template is not None:  # where newer versions look for it
      path = folder / "chat_template.jinja"
      path.write_text(template, encoding="utf-8")
  if source is not None and (source / "generation_config.json").is_file():
    name = "generation_config.json"
    shutil.copyfile(source / name, folder / name)
    return
  known = {n: v for n, v in model.details.items() if n.endswith("_token_id")}
  stops = getattr(model.tokenizer, "stops", ())
  if stops:
    known["eos_token_id"] = list(stops)
  if known:
    _write_json(folder / "generation_config.json", known)


def _special(model) -> dict[str, Any]:
  """`tokenizer_config.json` of a tokenizer that came without one."""
  tokenizer = model.tokenizer
  ids = dict(model.details)
  if tokenizer.stops:
    ids["eos_token_id"] = tokenizer.stops[0]
  # The class that adds nothing to what tokenizer.json says.
  made = {"tokenizer_class": "PreTrainedTokenizerFast"}
  for name in ("bos_token", "eos_token", "pad_token"):
    if isinstance(ids.get(f"{name}_id"), int):
      made[name] = tokenizer.decode([ids[f"{name}_id"]])
  if tokenizer.template is not None:
    made["chat_template"] = tokenizer.template
  return made


def _write_json(path, values):
  text = json.dumps(values, indent=2, sort_keys=True) + "\n"
  path.write_text(text, encoding="utf-8")
