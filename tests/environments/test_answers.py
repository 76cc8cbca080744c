"""Checks of answers: what counts as a number, and as the right one."""

import time
from fractions import Fraction

import pytest

from jaxroll.environments import answers, workers


@pytest.mark.parametrize(
  "text, value",
  [
    ("18", 18),
    ("She has 3 eggs and sells them for 18 dollars.", 18),
    ("#### 18", 18),
    ("2 + 3 = 5\n#### 5\nThen 7 more", 5),
    ("#### 1\nno, #### 2", 2),
    ("#### none, 5 before", 5),
    (r"\boxed{42} is it, not 43", 42),
    (r"\boxed{1}, no: \boxed{2}", 2),
    (r"\boxed{\frac{3}{4}}", Fraction(3, 4)),
    (r"\boxed{ -\dfrac{3}{4} }", Fraction(-3, 4)),
    (r"$2\frac{1}{2}$", Fraction(5, 2)),
    (r"\frac12", Fraction(1, 2)),
    (r"\boxed{7", 7),  # never closed
    ("1,234", 1234),
    ("$1,234,567.50.", Fraction(2469135, 2)),
    ("I have 1,234, and that is all", 1234),
    ("1, 2, 3", 3),
    ("1,2", 2),
    ("12,3456", 3456),
    (r"1{,}234", 1234),
    (r"12\,345", 12345),
    ("-5", -5),
    ("\u22125", -5),
    ("-$5", -5),
    ("$-5", -5),
    ("+5", 5),
    ("x=-5", -5),
    ("10-5", 5),
    ("(1)-5", 5),
    ("0.5", Fraction(1, 2)),
    (".5", Fraction(1, 2)),
    ("5.", 5),
    ("3/4", Fraction(3, 4)),
    ("3 / 4", Fraction(3, 4)),
    ("-3/4", Fraction(-3, 4)),
    ("1 1/2", Fraction(3, 2)),
    ("-1 1/2", Fraction(-3, 2)),
    ("10 / 2 = 5", 5),
    ("1e3", 1000),
    ("2.5E-1", Fraction(1, 4)),
    ("50%", 50),
    (r"50\%", 50),
    ("007", 7),
  ],
)
def test_the_last_number(text, value):
  assert answers.number(text)[0] == value


@pytest.mark.parametrize(
  "text", ["", "none", "#### none", r"\boxed{x} 3", "1/0", "1 1/0", "9" * 101]
)
def test_no_number(text):
  assert answers.number(text) is None
  assert answers.numeric(text, 3) == 0.0


def test_percent():
  assert answers.number("50%") == (50, True)
  assert answers.number("50 %") == (50, True)
  for completion, answer, right in [
    ("50%", "50", 1),
    ("50%", "0.5", 1),
    ("50", "50%", 1),
    ("0.5", "50%", 1),
    ("50%", "50%", 1),
    ("0.5%", "50%", 0),
    ("0.5", "50", 0),
    ("5000%", "50", 1),  # as a factor
    ("5%", "50", 0),
  ]:
    assert answers.numeric(completion, answer) == right, (completion, answer)


@pytest.mark.parametrize(
  "completion, answer, right",
  [
    ("18", "so it is\n#### 18", 1),
    ("18.0", 18, 1),
    ("0.1", 0.1, 1),
    ("1/10", 0.1, 1),
    ("0.33", Fraction(1, 3), 0),
    ("1/3", Fraction(1, 3), 1),
    ("-18", 18, 0),
    ("eighteen", 18, 0),
  ],
)
def test_numeric(completion, answer, right):
  assert answers.numeric(completion, answer) == right


def test_an_answer_without_a_number_is_an_error():
  with pytest.raises(ValueError, match="answer='none' has no number"):
    answers.numeric("1", "none")


@pytest.mark.parametrize(
  "text",
  [
    "9" * 200_000,
    "1e999999999",
    "1e999",
    "1," * 100_000,
    ",123" * 50_000,
    "1" + ",234" * 50_000 + ",",
    "1 " * 100_000,
    "1" + " " * 100_000 + "/2",
    "-" * 200_000,
    r"\boxed{" * 30_000,
    "{" * 200_000,
    r"\frac{" * 30_000,
    "1/" * 100_000,
    "####" * 50_000,
    "٣٤",
    "\ud800 5",
    "\x00" * 1000,
  ],
  ids=lambda text: repr(text[:10]),
)
def test_hostile_texts_take_no_time(text):
  start = time.monotonic()
  assert answers.numeric(text, 3) == 0.0
  assert answers.exact(text, "3") == 0.0
  assert time.monotonic() - start < 2


@pytest.mark.parametrize(
  "completion, answer, right",
  [
    ("Paris", "paris", 1),
    ("  New \n York. ", "new york", 1),
    ("#### B", "b", 1),
    (r"I think \boxed{B}", "B", 1),
    ("It is Paris", "Paris", 0),
    ("", "Paris", 0),
    ("\uff21", "a", 1),  # a full-width A
    ("3", 3, 1),
    ("b", "#### B", 1),
  ],
)
def test_exact(completion, answer, right):
  assert answers.exact(completion, answer) == right


def test_checks_by_name():
  assert answers.scorer("numeric")("p", "5", "5") == 1.0
  assert not answers.scorer("exact").needs_workers
  with pytest.raises(ValueError, match="check='nearly': must be one of"):
    answers.scorer("nearly")


def test_math_verify_is_for_workers():
  pytest.importorskip("math_verify")
  with pytest.raises(RuntimeError, match="worker processes only"):
    answers.math_verify("1", "1")
  rows = [
    (r"\boxed{\frac{2}{4}}", r"$\frac{1}{2}$", 1),
    (r"so $x^2 + 2x + 1$", "$(x+1)^2$", 1),
    (r"\boxed{(x+1)(x-1)}", "x^2-1", 1),
    ("It is 3/4", "0.75", 1),
    (r"\boxed{3}", "$4$", 0),
    ("no idea", "$4$", 0),
    ("", "$4$", 0),
    (r"\boxed{\frac{1}{", "$4$", 0),
    (r"\boxed{__import__('os').abort()}", "$4$", 0),
    ("1", "", None),  # no answer: an error of the data
    (r"\boxed{9^{9^{9^{9^{9}}}}}", "$4$", None),  # whatever: it ends
    ("4", "$4$", 1),
  ]
  requests = [("", completion, answer) for completion, answer, _ in rows]
  with workers.Pool(
    answers.scorer("math_verify"), workers=2, time_limit=5.0
  ) as pool:
    scores = pool.score(requests)
  assert scores[-2] != 1.0
  expected = [right for _, _, right in rows]
  assert scores[:-2] + scores[-1:] == expected[:-2] + expected[-1:]
