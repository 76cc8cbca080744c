"""Files of questions become tasks: mapped, tokenised once, with stable ids."""

import json

import numpy as np
import pytest

from jaxroll import environments, types
from jaxroll.environments import _text
from tests.environments import cases

pyarrow = pytest.importorskip("pyarrow")

ROWS = [
  {"q": f"{n}+{n}?", "a": float(2 * n), "kind": "even" if n % 2 == 0 else "odd"}
  for n in range(40)
]


def write(path, rows=ROWS):
  if path.suffix == ".jsonl":
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
  elif path.suffix == ".json":
    path.write_text(json.dumps(rows))
  else:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
  return str(path)


def make(path, **arguments):
  defaults = {
    "tokenizer": cases.tokenizer(),
    "question": "q",
    "answer": "a",
    "response_length": 12,
    "workers": 0,
  }
  return environments.questions(path, **defaults | arguments)


def scores(task, texts, ids):
  prompts, _ = task.prompts(task.data, np.array(ids, np.int32))
  width = task.response_length
  tokens = np.zeros((len(texts), width), np.int32)
  encode = cases.tokenizer().encode
  for row, text in zip(tokens, texts):
    row[: len(text)] = encode(text)
  length = [len(text) for text in texts]
  rows = cases.rollouts(tokens, length, group=range(len(texts)))
  outcome = cases.verifier(task)(prompts, rows)
  assert (outcome.status == types.SCORED).all()
  return outcome.reward.tolist()


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_kinds_of_files(tmp_path, kind):
  task = make(write(tmp_path / f"sums.{kind}"), prompt="Add: {question}\n{}")
  assert task.name == "questions:sums"
  texts = cases.prompt_texts(task)
  assert texts == [f"Add: {row['q']}\n{{}}" for row in ROWS]
  assert scores(task, ["6", "it is 8.0.", "9"], [3, 4, 5]) == [1, 1, 0]


def test_the_chat_turn_is_rendered_and_tokenised_once(tmp_path):
  seen = []

  def chat(messages):
    seen.append(messages)
    return [2, 7]

  make(
    write(tmp_path / "x.json"),
    tokenizer=cases.tokenizer(chat=chat),
    prompt="{question}\nReply with only the number.",
    system="Be brief.",
  )
  assert len(seen) == len(ROWS)
  assert seen[1] == [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1+1?\nReply with only the number."},
  ]


def test_plain_prompts_need_no_template(tmp_path):
  speaks = cases.tokenizer(chat=None, starts=(9,))
  task = make(write(tmp_path / "x.json"), tokenizer=speaks, form="plain")
  encode = cases.tokenizer().encode
  assert task.data.prompt[1].tolist()[:5] == [9, *encode("1+1?")]


def test_grades_come_from_a_field_and_order_the_pools(tmp_path):
  task = make(write(tmp_path / "x.json"), grade="kind", eval_fraction=0.3)
  assert task.grades == ("even", "odd")
  assert task.grade.tolist() == [n % 2 for n in range(40)]
  for pool in (task.train_pool, task.eval_pool):
    assert (np.diff(task.grade[pool]) >= 0).all()
  assert sorted([*task.train_pool, *task.eval_pool]) == list(range(40))


def test_ids_stay_when_rows_are_added(tmp_path):
  few = make(write(tmp_path / "a.jsonl", ROWS[:20]), eval_fraction=0.3)
  many = make(write(tmp_path / "b.jsonl", ROWS), eval_fraction=0.3)
  held_out = set(many.eval_pool.tolist())
  assert {i for i in held_out if i < 20} == set(few.eval_pool.tolist())
  assert cases.prompt_texts(many)[:20] == cases.prompt_texts(few)
  assert 4 <= len(held_out) <= 20  # 12 expected, 2.9 their deviation
  other = make(write(tmp_path / "b.jsonl"), eval_fraction=0.3, seed=1)
  assert set(other.eval_pool.tolist()) != held_out


def test_a_file_of_its_own_is_held_out(tmp_path):
  train = write(tmp_path / "train.json", [*ROWS[:20], ROWS[3]])
  held_out = write(tmp_path / "test.json", [*ROWS[18:25], ROWS[24]])
  task = make(train, eval_path=held_out)
  # Questions 18 and 19 stand in both, 3 and 24 twice.
  assert cases.prompt_texts(task) == [row["q"] for row in ROWS[:25]]
  assert task.train_pool.tolist() == list(range(18))
  assert task.eval_pool.tolist() == list(range(18, 25))


def test_long_prompts_are_refused_or_dropped(tmp_path):
  path = write(tmp_path / "x.json")  # 10 of 5 tokens, 30 of 7
  with pytest.raises(
    ValueError, match="prompt_length=6: 30 of 40 .* raise it to 7"
  ):
    make(path, prompt_length=6)
  task = make(path, prompt_length=6, longer="drop")
  assert task.prompt_length == 6
  assert cases.prompt_texts(task) == [row["q"] for row in ROWS[:10]]
  assert scores(task, ["18"], [9]) == [1]
  with pytest.raises(ValueError, match="40 of 40"):
    make(path, prompt_length=2, longer="drop")


def test_the_samples_with_their_own_answers():
  gsm8k = environments.questions(
    str(cases.SAMPLES / "gsm8k_train.jsonl"),
    eval_path=str(cases.SAMPLES / "gsm8k_test.jsonl"),
    tokenizer=_speaks_unicode(),
    solution="answer",
    response_length=600,
    prompt="{question}\nReply with only the number.",
    workers=1,
  )
  assert gsm8k.train_pool.tolist() == list(range(8))
  assert gsm8k.eval_pool.tolist() == [8, 9, 10, 11]
  _, prompts, rows, verify = _solved(gsm8k)
  assert verify(prompts, rows).reward.tolist() == [1] * 12
  shifted = rows.replace(group=np.roll(np.asarray(rows.group), 1))
  assert verify(prompts, shifted).reward.sum() <= 2
  svamp = environments.questions(
    str(cases.SAMPLES / "svamp.json"),
    tokenizer=cases.tokenizer(),
    question="{Body} {Question}",
    answer="Answer",
    solution="It is {Answer}.",
    grade="Type",
    response_length=20,
    workers=0,
  )
  _, prompts, rows, verify = _solved(svamp)
  assert verify(prompts, rows).reward.tolist() == [1] * 16
  assert set(svamp.grades) <= {
    "Addition",
    "Common-Division",
    "Multiplication",
    "Subtraction",
  }


def _speaks_unicode():
  """A token a character, whatever it is."""
  return cases.tokenizer(
    encode=lambda text: [3 + ord(c) for c in text],
    decode=lambda ids: "".join(chr(i - 3) for i in ids),
    chat=lambda messages: [3 + ord(c) for c in messages[-1]["content"]],
    size=2**17,
  )


def _solved(task):
  ids = np.arange(len(task.grade), dtype=np.int32)
  prompts, _ = task.prompts(task.data, ids)
  tokens, length = task.solutions(task.data, ids, None)
  rows = cases.rollouts(tokens, length, group=ids)
  return task, prompts, rows, cases.verifier(task)


@pytest.mark.parametrize(
  "rows, arguments, message",
  [
    (ROWS, {"question": "question"}, r"row 0 has no \['question'\].*'kind'"),
    (ROWS, {"question": "{q} {x}"}, r"has no \['x'\]"),
    ([{"q": "1?", "a": None}], {}, r"has no \['a'\]"),
    ([{"q": " ", "a": 1}], {}, "row 0: the question is empty"),
    ([{"q": "1?", "a": "one"}], {}, "answer='one' has no number.*'exact'"),
    ([{"q": "1?", "a": [1]}], {}, "neither text nor number"),
    ([{"q": "1?", "a": 1}, 3], {}, "row 1: 3 is no object"),
    ([], {}, "has no rows"),
    ({"q": 1}, {}, "must hold a list of objects"),
    (ROWS, {"prompt": "Compute"}, "question.* must stand in it once"),
    (ROWS, {"prompt": "{question} {x}"}, "no other name"),
    (ROWS, {"form": "text"}, "form='text': must be one of"),
    (ROWS, {"form": "plain", "system": "x"}, "system='x' with form='plain'"),
    (ROWS, {"longer": "cut", "prompt_length": 9}, "longer='cut'"),
    (ROWS, {"check": "equal"}, "check='equal': must be one of"),
    (ROWS, {"check": "math_verify"}, "set workers to 1 or more"),
    (ROWS, {"eval_fraction": 1.0}, "eval_fraction=1.0"),
    ([{"q": "ä", "a": 1}], {}, "question 0, 'ä'.*outside the vocabulary"),
  ],
)
def test_refused(tmp_path, rows, arguments, message):
  with pytest.raises(ValueError, match=message):
    make(write(tmp_path / "x.json", rows), **arguments)


def test_files_that_cannot_be_read(tmp_path):
  with pytest.raises(FileNotFoundError, match="no such file of questions"):
    make(str(tmp_path / "x.json"))
  for name in ("x.jsonl", "x.json", "x.parquet", "x.csv"):
    (tmp_path / name).write_text('{"q": 1}\n{')
  with pytest.raises(ValueError, match="x.jsonl, line 2: not JSON"):
    make(str(tmp_path / "x.jsonl"))
  with pytest.raises(ValueError, match="x.json: not JSON"):
    make(str(tmp_path / "x.json"))
  with pytest.raises(ValueError, match="x.parquet: not a Parquet file"):
    make(str(tmp_path / "x.parquet"))
  with pytest.raises(ValueError, match=r"x.csv: must be one of"):
    make(str(tmp_path / "x.csv"))


def test_texts_of_fields():
  fields = {"a": 51.0, "b": 0.5, "c": True, "d": "x"}
  assert _text.fill("{a} {b} {c} {d} {} {a.b}", fields) == (
    "51 0.5 True x {} {a.b}"
  )
