r"""Is the answer in a completion the right one?

    numeric      its last number equals the answer's
    exact        its text equals the answer's, up to case and spaces
    math_verify  its expression equals the answer's, up to algebra

The answer of a text is what stands in its last \boxed{}, else after its last
"####", else the whole of it. Only `math_verify` evaluates what it reads (with
sympy): it runs in worker processes and nowhere else. The other two are
regular expressions and exact fractions, linear in the text's length.

The check of numbers follows Cobbe et al. 2021 (GSM8K, 2110.14168), whose
answers end in "#### 18"; `math_verify` is the package of that name.
"""

import collections
import re
import sys
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

_LONGEST = 100  # characters of a number; a longer one is none
_FRACTION = re.compile(
  r"\\[dt]?frac ?(?:\{(-?\d{1,40})\} ?\{(\d{1,40})\}|(\d)(\d))"
)
# A minus is a sign unless something stands before it from which to subtract.
_NUMBER = re.compile(
  r"(?:(?<![\w)}.%])(?P<sign>[-+]))?(?:[$€£](?P<inner>[-+]?))?"
  r"(?:(?P<whole>\d{1,40}) (?P<over>\d{1,40})/(?P<under>\d{1,40})(?![\d.])"
  r"|(?P<number>(?:\d{1,3}(?:,\d{3}){1,20}(?!,?\d)|\d+)(?:\.\d+)?|(?<!\d)\.\d+)"
  r"(?P<power>(?:[eE][-+]?\d{1,3}(?![\d\w]))?)"
  r"(?: ?/ ?(?P<divisor>\d{1,40})(?![\d.]))?)"
  r"(?P<percent> ?%)?"
)
_LATEX = [
  ("\u2212", "-"),
  ("{,}", ","),
  ("\\,", ""),
  ("\\!", ""),
  ("\\%", "%"),
  ("\\$", "$"),
]


def final(text: str) -> str:
  r"""The part of a text that is its answer.

  Args:
    text: anything.

  Returns:
    The content of the last \boxed{} whose braces are closed, else what
    follows the last "####", up to the line's end, else the text.

  Example:
    >>> final("so 2 + 3 = 5\n#### 5"), final(r"it is \boxed{\frac{1}{2}}.")
    ('5', '\\frac{1}{2}')
  """
  _, boxed, rest = text.rpartition("\\boxed{")
  if boxed:
    depth = 1
    for place, character in enumerate(rest):
      depth += (character == "{") - (character == "}")
      if not depth:
        return rest[:place]
  _, marked, rest = text.rpartition("####")
  return rest.strip().partition("\n")[0].strip() if marked else text


def number(text: str) -> tuple[Fraction, bool] | None:
  r"""The last number of a text's answer.

  Signs, decimals, thousands with commas, powers of ten (1e3), fractions (3/4,
  \frac{3}{4}, 1 1/2), currencies before it and a percent sign after it are
  read. A comma is never a decimal point.

  Args:
    text: anything.

  Returns:
    The exact value and whether a percent sign follows it; None where there is
    no number, it has more than 100 characters, or its divisor is 0.

  Example:
    >>> number("costs $1,234.50 today."), number("10-5"), number("-3/4")
    ((Fraction(2469, 2), False), (Fraction(5, 1), False), (Fraction(-3, 4), False))
  """  # noqa: E501
  text = final(text)
  for written, plain in _LATEX:
    text = text.replace(written, plain)
  text = _FRACTION.sub(_flat, text)
  last = collections.deque(_NUMBER.finditer(text), maxlen=1)
  if not last or len(last[0][0]) > _LONGEST:
    return None
  found = last[0]
  if found["whole"]:
    under = int(found["under"])
    value = under and int(found["whole"]) + Fraction(int(found["over"]), under)
  else:
    under = int(found["divisor"] or 1)
    value = Fraction(found["number"].replace(",", "") + found["power"])
    value = under and value / under
  if not under:
    return None
  negative = "-" in (found["sign"], found["inner"])
  return Fraction(-value if negative else value), bool(found["percent"])


def numeric(completion: str, answer: Any) -> float:
  r"""1 if the completion's last number equals the answer's.

  The values are compared exactly: 0.5 equals 1/2, and 0.33 is not 1/3. A
  percent sign on one side only may be meant either way: 50% equals 50 and 0.5.

  Args:
    completion: what the policy wrote.
    answer: a number, or a text whose last number is meant.

  Returns:
    1.0 or 0.0, the latter where the completion has no number.

  Raises:
    ValueError: for an answer without a number: that is an error of the data.

  Example:
    >>> numeric("5 - 3 = 2, so it is 1,234.0.", "#### 1234"), numeric("?", 3)
    (1.0, 0.0)
  """
  if isinstance(answer, (int, float, Fraction)):
    # As it is written: 0.1 is a tenth.
    right = Fraction(repr(answer) if isinstance(answer, float) else answer)
    right = (right, False)
  else:
    right = number(str(answer))
  if right is None:
    raise ValueError(f"answer={answer!r} has no number: give one")
  given = number(completion)
  if given is None:
    return 0.0
  (value, percent), (wanted, wanted_percent) = given, right
  same = value == wanted
  if percent and not wanted_percent:
    same |= value == 100 * wanted
  if wanted_percent and not percent:
    same |= 100 * value == wanted
  return float(same)


def exact(completion: str, answer: Any) -> float:
  r"""1 if the completion's answer is the answer's text.

  Case, spaces, Unicode's compatible forms (NFKC) and a period at the end make
  no difference.

  Args:
    completion: what the policy wrote: the answer alone, or the answer in
      \boxed{} or after "####".
    answer: the right text.

  Returns:
    1.0 or 0.0.

  Example:
    >>> exact(" new  York.", "New York"), exact("It is New York.", "New York")
    (1.0, 0.0)
  """
  return float(_normal(completion) == _normal(str(answer)))


def math_verify(completion: str, answer: Any) -> float:
  r"""1 if the completion's expression equals the answer's, by sympy.

  Args:
    completion: what the policy wrote.
    answer: an expression, as LaTeX between $ signs or plain.

  Returns:
    1.0 or 0.0.

  Raises:
    RuntimeError: outside a worker process: parsing hostile text may hang or
      exhaust the memory.
    ImportError: without the package.
    ValueError: for an answer that cannot be parsed.

  Example: `workers.Pool(answers.scorer("math_verify"))` scores a completion
  `\boxed{\frac{2}{4}}` against the answer `$\frac{1}{2}$` as 1.
  """
  if not hasattr(sys.modules["__main__"], "JAXROLL_WORKER"):
    raise RuntimeError(
      "math_verify runs sympy on what a policy wrote: use it in worker "
      "processes only (host_task(..., workers=2) or workers.Pool)"
    )
  package = _package()
  # The pool has a time limit of its own, which also holds in compiled code.
  parse = lambda text: package.parse(text, parsing_timeout=None)  # noqa: E731
  wanted = parse(str(answer)) or parse(f"${answer}$")
  if not wanted:
    raise ValueError(f"answer={answer!r} is no expression: give LaTeX in $")
  # An expression that cannot be compared is not equal, not an error.
  return float(package.verify(wanted, parse(completion), timeout_seconds=None))


class Scorer(NamedTuple):
  """A check as a scorer of `host_task` or `workers.Pool`; can be pickled."""

  check: Callable[[str, Any], float]
  needs_workers: bool

  def __call__(self, prompt: str, completion: str, answer: Any) -> float:
    """The check's score; the prompt is not read."""
    return self.check(completion, answer)

  def load(self) -> None:
    """Imports what the check needs; a worker does so before it is ready."""
    if self.check is math_verify:
      _package()


_CHECKS = {"exact": exact, "math_verify": math_verify, "numeric": numeric}


def scorer(name: str) -> Scorer:
  """A check by its name.

  Args:
    name: "exact", "math_verify" or "numeric".

  Returns:
    (prompt, completion, answer) -> 1.0 or 0.0.

  Raises:
    ValueError: for another name.

  Example:
    >>> scorer("numeric")("1+1=", "it is 2", "2")
    1.0
  """
  if name not in _CHECKS:
    raise ValueError(f"check={name!r}: must be one of {sorted(_CHECKS)}")
  return Scorer(_CHECKS[name], needs_workers=name == "math_verify")


def _package():
  try:
    import math_verify as package
  except ImportError as error:
    raise ImportError(
      "math_verify needs the extra 'tasks': pip install 'jaxroll[tasks]'"
    ) from error
  return package


def _flat(found):
  """A LaTeX fraction as "a/b", apart from a whole number before it."""
  over, under = found[1] or found[3], found[2] or found[4]
  before = found.string[: found.start()][-1:]
  return f"{' ' if before.isdigit() else ''}{over}/{under}"


def _normal(text):
  text = unicodedata.normalize("NFKC", final(text)).casefold()
  return " ".join(text.split()).removesuffix(".").rstrip()
