"""What are a text's tokens? The model's own tokenizer and chat template.

Tokens go in and come out: text is decoded for verifiers and people only, and
never encoded again for training.

Byte-pair encoding is the `tokenizers` package's, templates are rendered by
jinja2 in its immutable sandbox: pip install 'jaxroll[lm]'.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

_CONTROL = 3  # GGUF's type of a token that stands for no text


class Tokenizer(NamedTuple):
  """Text to tokens and back.

  Attributes:
    encode: (text) -> list of tokens; special tokens in the text are text.
    decode: (tokens) -> text, special tokens written out.
    chat: (messages, one dict(role=..., content=...) each) -> tokens of the
      conversation up to where the assistant's answer starts.
    size: number of tokens, V.
    stops: tokens that end an answer.
  """

  encode: Callable
  decode: Callable
  chat: Callable
  size: int
  stops: tuple


def from_gguf(fields: Mapping[str, Any]) -> Tokenizer:
  """The tokenizer that a GGUF file carries.

  Args:
    fields: its metadata by name.

  Returns:
    `Tokenizer`.

  Raises:
    ImportError: without `tokenizers` or `jinja2`.
    ValueError: for another kind than byte-level BPE as SmolLM2 has it.
  """
  kind = fields["tokenizer.ggml.model"], fields.get("tokenizer.ggml.pre")
  if kind != ("gpt2", "smollm"):
    raise ValueError(
      f"tokenizer {kind}: only byte-level BPE ('gpt2', 'smollm') can be read"
    )
  try:
    import tokenizers
  except ImportError as error:
    raise ImportError(
      "a pretrained tokenizer needs tokenizers and jinja2: "
      "pip install 'jaxroll[lm]'"
    ) from error
  tokens = fields["tokenizer.ggml.tokens"]
  merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
  vocabulary = {token: number for number, token in enumerate(tokens)}
  model = tokenizers.models.BPE(vocab=vocabulary, merges=merges)
  made = tokenizers.Tokenizer(model)
  made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
    [
      tokenizers.pre_tokenizers.Digits(individual_digits=True),
      tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False),
    ]
  )
  made.decoder = tokenizers.decoders.ByteLevel()
  types = fields["tokenizer.ggml.token_type"]
  special = [t for t, kind in zip(tokens, types) if kind == _CONTROL]
  made.add_special_tokens(special)
  names = {
    name: tokens[fields[f"tokenizer.ggml.{name}_id"]]
    for name in ("bos_token", "eos_token")
    if f"tokenizer.ggml.{name}_id" in fields
  }
  template = _template(fields["tokenizer.chat_template"], names)
  encoding = {"add_special_tokens": False}

  def encode(text: str) -> list[int]:
    pieces = _between(text, special)
    ids = [made.encode(piece, **encoding).ids for piece in pieces]
    return [token for piece in ids for token in piece]

  def decode(ids: Sequence[int]) -> str:
    return made.decode([int(i) for i in ids], skip_special_tokens=False)

  def chat(messages: Sequence[Mapping[str, str]]) -> list[int]:
    _refuse_special(messages, special)
    return made.encode(template(messages), **encoding).ids

  eos = int(fields["tokenizer.ggml.eos_token_id"])
  ends = {eos} | {vocabulary[t] for t in ("<|endoftext|>",) if t in vocabulary}
  return Tokenizer(encode, decode, chat, len(tokens), tuple(sorted(ends)))


def _between(text, special):
  """The text cut inside its special tokens, so that none is read as one."""
  pieces = [text]
  for token in special:
    cut = []
    for piece in pieces:
      first, *others = piece.split(token)
      cut.append(first)
      for other in others:
        cut[-1] += token[:1]
        cut.append(token[1:] + other)
    pieces = cut
  return [piece for piece in pieces if piece]


def _refuse_special(messages, special):
  """A message that writes a control token could end its own turn."""
  for message in messages:
    found = [t for t in special if t in message["content"]]
    if found:
      raise ValueError(
        f"a message contains the control tokens {found}: remove them"
      )


def _template(source: str, names: Mapping[str, str]) -> Callable:
  """(messages) -> text of a chat template, ready for the answer."""
  import jinja2
  import jinja2.sandbox

  def fail(message):
    raise jinja2.exceptions.TemplateError(message)

  environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True
  )
  environment.globals["raise_exception"] = fail
  compiled = environment.from_string(source)

  def render(messages):
    return compiled.render(
      messages=list(messages), add_generation_prompt=True, **names
    )

  return render
