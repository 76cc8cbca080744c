"""What are a text's tokens? The model's own tokenizer and chat template.

Tokens go in and come out: text is decoded for verifiers and people only, and
never encoded again for training. Padding is nobody's token: rows carry their
lengths, and what stands after them is not read.

Byte-pair encoding is the `tokenizers` package's, templates are rendered by
jinja2 in its immutable sandbox: pip install 'jaxroll[lm]'.
"""

import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxroll.models import chat as chat_lib
from jaxroll.models import gguf_vocabulary

_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token")
# Tokens that end a turn, whatever a GGUF file says of them.
_ENDS = (
  "<|endoftext|>",
  "<|im_end|>",
  "<|eot_id|>",
  "<|eom_id|>",
  "<|end_of_text|>",
  "<|end|>",
  "<end_of_turn>",
)
_PLAIN = {"add_special_tokens": False}


class Tokenizer(NamedTuple):
  """Text to tokens and back; also a vocabulary of `environments.host_task`.

  Attributes:
    encode: (text) -> list of tokens, none before or after the text's own;
      special tokens in the text are text.
    decode: (tokens) -> text, special tokens written out, tokens that do not
      exist as "<77>".
    chat: (messages, one dict(role=..., content=...) each) -> tokens of the
      conversation up to where the assistant's answer starts, with exactly one
      start token before it where the model has one.
    size: number of tokens, V.
    stops: all tokens that end an answer, the model's end of a turn first.
    starts: tokens that the model wants before a text without a template.
    json: the tokenizer as the text of a `tokenizer.json`.
    template: the chat template's text, None where there is none.
  """

  encode: Callable
  decode: Callable
  chat: Callable
  size: int
  stops: tuple
  starts: tuple = ()
  json: str | None = None
  template: str | None = None


def from_folder(folder: str | os.PathLike) -> Tokenizer:
  """The tokenizer of a Hugging Face folder.

  Args:
    folder: with `tokenizer.json`; special tokens and the chat template are
      taken from `tokenizer_config.json` and `chat_template.jinja`, stop tokens
      from `generation_config.json` (else `config.json`) and the tokenizer.

  Returns:
    `Tokenizer`.

  Raises:
    ImportError: without `tokenizers` or `jinja2`.
    FileNotFoundError: without `tokenizer.json`.
    ValueError: for a file that cannot be read, or no stop token.
  """
  tokenizers = _package()
  folder = pathlib.Path(folder)
  path = folder / "tokenizer.json"
  if not path.is_file():
    raise FileNotFoundError(
      f"{path}: no such file: load the tokenizer with Transformers and write "
      "it with save_pretrained"
    )
  try:
    made = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
  except Exception as error:  # The package raises Exception itself.
    raise ValueError(f"{path}: not a tokenizer: {error}") from error
  config = _read(folder / "special_tokens_map.json")
  config |= _read(folder / "tokenizer_config.json")
  names = {name: _text(config.get(name)) for name in _NAMES}
  names = {name: text for name, text in names.items() if text is not None}
  stops = _listed(made.token_to_id(names.get("eos_token", "")))
  for file in ("generation_config.json", "config.json"):
    found = _listed(_read(folder / file).get("eos_token_id"))
    if found:
      stops += found
      break
  return _build(
    made,
    names,
    chat_lib.source(folder, config),
    adds_start=config.get("add_bos_token"),
    stops=stops,
    where=folder,
  )


def from_gguf(fields: Mapping[str, Any]) -> Tokenizer:
  """The tokenizer that a GGUF file carries.

  Args:
    fields: its metadata by name.

  Returns:
    `Tokenizer`.

  Raises:
    ImportError: without `tokenizers` or `jinja2`.
    ValueError: for a kind that cannot be read, see `gguf_vocabulary`.
  """
  _package()
  made = gguf_vocabulary.make(fields)
  tokens = fields["tokenizer.ggml.tokens"]
  names = {
    f"{short}_token": tokens[fields[f"tokenizer.ggml.{long}_token_id"]]
    for short, long in (
      ("bos", "bos"),
      ("eos", "eos"),
      ("unk", "unknown"),
      ("pad", "padding"),
    )
    if f"tokenizer.ggml.{long}_token_id" in fields
  }
  stops = []
  for name in ("eos", "eot", "eom"):
    stops += _listed(fields.get(f"tokenizer.ggml.{name}_token_id"))
  stops += [t for t in map(made.token_to_id, _ENDS) if t is not None]
  return _build(
    made,
    names,
    fields.get("tokenizer.chat_template"),
    adds_start=fields.get(
      "tokenizer.ggml.add_bos_token",
      fields["tokenizer.ggml.model"] == "llama",
    ),
    stops=stops,
    where="the GGUF file",
  )


def _package():
  try:
    import tokenizers
  except ImportError as error:
    raise ImportError(
      "a pretrained tokenizer needs tokenizers and jinja2: "
      "pip install 'jaxroll[lm]'"
    ) from error
  return tokenizers


def _build(made, names, template, *, adds_start, stops, where) -> Tokenizer:
  """`Tokenizer` of a `tokenizers.Tokenizer` and what is known beside it."""
  # A file may ask for both; nothing is cut here, and rows are padded elsewhere.
  made.no_truncation()
  made.no_padding()
  known = made.get_added_tokens_decoder()
  special = {t.content: n for n, t in known.items() if t.special}
  size = max(made.get_vocab(with_added_tokens=True).values()) + 1
  stops = tuple(dict.fromkeys(int(s) for s in stops))
  wrong = [s for s in stops if not 0 <= s < size]
  if wrong or not stops:
    raise ValueError(
      f"{where}: stop tokens {wrong or stops} are not among its {size}: give "
      "eos_token_id in generation_config.json"
    )
  start = made.token_to_id(names.get("bos_token", ""))
  first = made.encode("a").ids[:1]
  if adds_start is None:
    # Whether the tokenizer itself puts one before a text.
    adds_start = first != made.encode("a", **_PLAIN).ids[:1]
    start = first[0] if adds_start else start
  starts = (start,) if adds_start and start is not None else ()
  text_only = type(made).from_str(made.to_str())
  text_only.encode_special_tokens = True
  unknown = made.token_to_id(names.get("unk_token", ""))
  forbidden = set(special.values()) - {unknown}
  render = None
  if template is not None:
    render = chat_lib.template(template, names)

  def encode(text: str) -> list[int]:
    ids = text_only.encode(text, **_PLAIN).ids
    if forbidden.intersection(ids):
      raise ValueError(
        f"text={text[:200]!r} contains the control tokens "
        f"{_found(text, special)}: remove them"
      )
    return ids

  def decode(ids: Sequence[int]) -> str:
    parts, run = [], []
    for token in map(int, ids):
      if 0 <= token < size and made.id_to_token(token) is not None:
        run.append(token)
        continue
      # Padding of an embedding, or none at all: the decoder would skip it.
      parts += [made.decode(run, skip_special_tokens=False), f"<{token}>"]
      run = []
    parts.append(made.decode(run, skip_special_tokens=False))
    return "".join(parts)

  def chat(messages: Sequence[Mapping[str, str]]) -> list[int]:
    if render is None:
      raise ValueError(
        f"{where} has no chat template: use plain prompts, or put a "
        "chat_template.jinja beside the model"
      )
    for message in messages:
      # It could end its own turn.
      found = _found(message["content"], special)
      if found:
        raise ValueError(
          f"a message contains the control tokens {found}: remove them"
        )
    ids = made.encode(render(messages), **_PLAIN).ids
    if start is None:
      return ids
    own = 0
    while own < len(ids) and ids[own] == start:
      own += 1
    return [start] * bool(own or starts) + ids[own:]

  return Tokenizer(
    encode, decode, chat, size, stops, starts, made.to_str(), template
  )


def _found(text, special):
  return [token for token in special if token and token in text]


def _read(path) -> dict[str, Any]:
  """The JSON object in a file, empty where there is no file."""
  if not path.is_file():
    return {}
  try:
    value = json.loads(path.read_text(encoding="utf-8"))
  except ValueError as error:
    raise ValueError(f"{path}: not JSON: {error}") from error
  if not isinstance(value, dict):
    raise ValueError(f"{path}: holds no object")
  return value


def _text(token) -> str | None:
  """A special token as configurations write it: a text, or an object."""
  return token.get("content") if isinstance(token, dict) else token


def _listed(ids) -> list[int]:
  """One id, several or none as a list."""
  if ids is None:
    return []
  return list(ids) if isinstance(ids, (list, tuple)) else [ids]
