"""The character vocabulary, the tables' helpers, and the doctests."""

import doctest
import importlib

import pytest

from jaxroll.environments import _table, vocabulary


def test_layout():
  assert (vocabulary.PAD, vocabulary.STOP, vocabulary.START) == (0, 1, 2)
  assert vocabulary.SIZE == 24
  assert vocabulary.encode("0123456789") == list(range(3, 13))
  assert vocabulary.ZERO == 3


def test_decode_inverts_encode():
  text = vocabulary.CHARACTERS[::-1] + "12+7=19"
  assert vocabulary.decode(vocabulary.encode(text)) == text
  every = vocabulary.encode(vocabulary.CHARACTERS)
  assert every == list(range(3, 24))


def test_special_and_unknown_tokens_are_written_out():
  assert vocabulary.decode([2, 4, 0, 1]) == "<start>1<pad><stop>"
  assert vocabulary.decode([24, -1]) == "<24><-1>"


def test_bad_text():
  with pytest.raises(ValueError, match=r"'1x' has characters \['x'\]"):
    vocabulary.encode("1x")
  with pytest.raises(ValueError, match="repeats"):
    vocabulary.characters("aba")


@pytest.mark.parametrize(
  "available, train, evaluation, expected",
  [
    (576, 512, 64, (512, 64)),
    (575, 512, 64, (512, 63)),  # 575 * 64 // 576 = 63
    (100, 512, 64, (89, 11)),
    (3, 512, 64, (2, 1)),  # 3 * 64 // 576 = 0, but one is asked for
    (3, 1, 64, (1, 2)),
    (3, 512, 0, (3, 0)),
  ],
)
def test_split(available, train, evaluation, expected):
  assert _table.split(available, train, evaluation) == expected


@pytest.mark.parametrize(
  "name",
  ["_arithmetic", "_countdown", "_expressions", "_host", "_table"]
  + ["vocabulary"],
)
def test_examples_in_docstrings(name):
  module = importlib.import_module(f"jaxroll.environments.{name}")
  names = {"np": importlib.import_module("numpy")}
  failed, tried = doctest.testmod(module, extraglobs=names)
  assert tried > 0 and failed == 0
