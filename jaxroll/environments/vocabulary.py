"""Which token stands for which character?

Token 0 pads, 1 stops and 2 starts; the characters follow from 3 on, in the
order given. The digit d is token `ZERO + d` in `DEFAULT`, the vocabulary of
the embedded tasks (24 tokens, so that it divides over meshes of up to 8).
"""

from collections.abc import Callable
from typing import NamedTuple

PAD, STOP, START = 0, 1, 2
CHARACTERS = "0123456789+-*=,: ()/?"
ZERO = 3

_SPECIAL = ("<pad>", "<stop>", "<start>")


class Vocabulary(NamedTuple):
  """Text to tokens and back.

  Attributes:
    encode: (text) -> list of tokens; no start or stop token is added.
    decode: (tokens) -> text. Special and unknown tokens are written out, as
      "<pad>" or "<77>": text in which they stand never equals a clean answer.
    size: number of tokens, V.
    starts: tokens before a prompt's. stops: tokens that end a response, the
      first of them is the one that solutions end in.
  """

  encode: Callable
  decode: Callable
  size: int
  starts: tuple = (START,)
  stops: tuple = (STOP,)


def characters(text: str) -> Vocabulary:
  """A vocabulary with one token a character.

  Args:
    text: the characters, each once; the i-th gets token 3 + i.

  Returns:
    Vocabulary of size 3 + len(text).

  Raises:
    ValueError: for a repeated character; from `encode`, for an unknown one.

  Example:
    >>> letters = characters("abc")
    >>> letters.encode("cab")
    [5, 3, 4]
    >>> letters.decode([2, 5, 3, 4, 1])
    '<start>cab<stop>'
  """
  if len(set(text)) != len(text):
    raise ValueError(f"characters={text!r} repeats one: give each once")
  symbols = (*_SPECIAL, *text)
  token = {c: len(_SPECIAL) + i for i, c in enumerate(text)}

  def encode(text):
    unknown = sorted(set(text) - set(token))
    if unknown:
      raise ValueError(
        f"text={text!r} has characters {unknown} outside the vocabulary "
        f"{''.join(token)!r}: remove them or use another vocabulary"
      )
    return [token[c] for c in text]

  def decode(ids):
    known = range(len(symbols))
    return "".join(
      symbols[i] if i in known else f"<{i}>" for i in map(int, ids)
    )

  return Vocabulary(encode, decode, len(symbols))


DEFAULT = characters(CHARACTERS)
encode, decode, SIZE = DEFAULT[:3]
