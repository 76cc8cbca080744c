"""reasoning-gym: the same problems in every run; right answers are right."""

import json
import pickle
import re

import numpy as np
import pytest

from jaxroll import environments, types
from jaxroll.environments import _reasoning_gym, gym, workers
from tests.environments import cases, gym_scorer

factory = pytest.importorskip("reasoning_gym.factory")

# Their entries name no answer, since many are right. Some have one among the
# metadata, under this name.
WITHOUT_ANSWER = {
  "boxnet": None,
  "graph_color": "possible_answer",
  "propositional_logic": "example_answer",
  "rubiks_cube": "example_correct_answer",
  "rush_hour": None,
}
LEVELS = [{"max_digits": 1}, {"min_digits": 2, "max_digits": 2}]
TWO_TERMS = {"min_terms": 2, "max_terms": 2}


def make(**arguments):
  defaults = {
    "tokenizer": cases.tokenizer(),
    "parameters": TWO_TERMS,
    "per_grade": 6,
    "eval_per_grade": 2,
    "response_length": 24,
    "workers": 1,
  }
  name = arguments.pop("data_set", "chain_sum")
  return environments.reasoning_gym(name, **defaults | arguments)


def known_answer(name, problem):
  if name not in WITHOUT_ANSWER:
    return problem.answer
  assert problem.answer is None
  if WITHOUT_ANSWER[name] is None:
    return None
  found = pickle.loads(problem.entry)["metadata"][WITHOUT_ANSWER[name]]
  return found if isinstance(found, str) else json.dumps(found)


def test_own_answers_of_every_data_set_are_right():
  requests = []
  for name in sorted(factory.DATASETS):
    kind, levels = gym._problems(name, [gym_scorer.parameters(name)], 2, 0)
    assert kind == "made", levels
    for problem in map(gym.Problem._make, levels[0]):
      answer = known_answer(name, problem)
      if answer is not None:
        requests.append((problem.question, answer, (name, problem.entry)))
  with workers.Pool(gym_scorer.score, workers=1, time_limit=60) as pool:
    scores = pool.score(requests)
  names = [answer[0] for _, _, answer in requests]
  assert {n for n, score in zip(names, scores) if score != 1} == set()
  assert len(set(names)) == len(factory.DATASETS) - 2


def test_problems_are_the_same_in_every_process(monkeypatch):
  # The problems of this set depend on hashes and on global random numbers.
  monkeypatch.setenv("PYTHONHASHSEED", "1")
  first = gym.generate("codeio", [{}], count=2, seed=3)
  monkeypatch.setenv("PYTHONHASHSEED", "2")
  second = gym.generate("codeio", [{}], count=2, seed=3)
  assert [p[:2] for p in first[0]] == [p[:2] for p in second[0]]


def test_levels_are_grades():
  task = make(levels=LEVELS, least_score=1.0)
  assert task.name == "reasoning_gym:chain_sum"
  assert task.grades == ("max_digits=1", "max_digits=2,min_digits=2")
  assert task.grade.tolist() == [0] * 8 + [1] * 8
  assert task.eval_pool.tolist() == [6, 7, 14, 15]
  texts = cases.prompt_texts(task)
  assert len(set(texts)) == 16
  digits = [max(map(len, _numbers(text))) for text in texts]
  assert digits == [1] * 8 + [2] * 8


def _numbers(text):
  return "".join(c if c.isdigit() else " " for c in text).split()


def test_rewards_of_completions():
  task = make(extract="number", prompt="{question} Only the number.")
  ids = np.arange(8, dtype=np.int32)
  prompts, contexts = task.prompts(task.data, ids)
  answers = [
    task.decode(row[: n - 1])
    for row, n in zip(task.data.answer, task.data.answer_length)
  ]
  texts = [f"it is {answer}.|" for answer in answers]
  texts[3], texts[4], texts[5] = "999|", "I do not know|", "|"
  rows = _written(texts, 24)
  outcome = cases.verifier(task)(prompts, rows)
  assert outcome.reward.tolist() == [1, 1, 1, 0, 0, 0, 1, 1]
  assert (outcome.status == types.SCORED).all()


def _written(texts, width):
  encode, (stop,) = cases.tokenizer().encode, cases.tokenizer().stops
  tokens = np.zeros((len(texts), width), np.int32)
  for row, text in zip(tokens, texts):
    ids = [*encode(text.removesuffix("|")), stop]
    row[: len(ids)] = ids
  return cases.rollouts(
    tokens, [len(t) for t in texts], group=range(len(texts))
  )


def test_small_levels_have_fewer_problems():
  # Sums of two one-digit numbers with +: at most 100.
  task = make(
    parameters=TWO_TERMS | {"max_digits": 1, "allow_negation": False},
    per_grade=400,
    eval_per_grade=100,
  )
  number = len(task.grade)
  assert number < 500
  assert task.eval_pool.size == number * 100 // 500
  assert len(set(cases.prompt_texts(task))) == number


def test_no_solutions_where_the_data_set_has_none_or_they_do_not_fit():
  speaks = cases.tokenizer()
  solutions = _reasoning_gym._solutions
  assert solutions(["1", None], speaks, 9) is None
  assert solutions(["1", "123"], speaks, 4) == ["1", "123"]
  assert solutions(["1", "123"], speaks, 3) is None
  assert solutions(["ä"], speaks, 9) is None


@pytest.mark.parametrize(
  "completion, how, answer",
  [
    ("the answer\n", "final", "the answer"),
    ("<answer>1</answer> or <answer> 2 </answer>", "final", "2"),
    ("<answer>1</answer> \\boxed{3}", "final", "1"),
    ("\\boxed{3}", "final", "3"),
    ("so\n#### 18", "final", "18"),
    ("<answer>1 <answer>", "final", "<answer>1 <answer>"),
    ("<answer>1</answer> and </answer>", "final", "1"),
    ("<answer> <answer>2</answer>", "final", "2"),
    ("<answer>1</answer>", "text", "<answer>1</answer>"),
    ("1 + 2 = 3.", "number", "3"),
    ("It costs $1,234.50", "number", "1234.5"),
    ("-0.05", "number", "-0.05"),
    ("100", "number", "100"),
    ("1/3", "number", "1/3"),
    ("3/8", "number", "0.375"),
    ("none", "number", ""),
  ],
)
def test_what_of_a_completion_is_its_answer(completion, how, answer):
  assert gym.extract(completion, how) == answer


@pytest.mark.parametrize(
  "text", ["<answer>" * 50_000, "</answer>" + "<answer>" * 50_000]
)
def test_extraction_is_linear(text):
  gym.extract(text, "final")
  gym.extract(text + "</answer>", "final")


@pytest.mark.parametrize(
  "name, parameters, message",
  [
    ("chain", {}, "data_set='chain': must be one of .*'chain_sum'"),
    ("gcd", {"digits": 1}, "refuses .*'digits'.*it takes .*'max_numbers'"),
    ("gcd", {"min_numbers": 0}, "refuses .*AssertionError"),
    ("composite", {}, "refuses .*at least one dataset"),
  ],
)
def test_what_a_generator_refuses(name, parameters, message):
  kind, found = gym._problems(name, [parameters], 2, 0)
  assert kind == "value" and re.search(message, found)


def test_levels_that_hold_no_new_problem():
  small = TWO_TERMS | {"max_digits": 1, "allow_negation": False}
  kind, found = gym._problems("chain_sum", [small, small], 10**4, 0)
  assert kind == "value" and "not in an easier level" in found


@pytest.mark.parametrize(
  "arguments, message",
  [
    ({"parameters": {"digits": 1}}, "refuses .*'digits'.*it takes.*max_digits"),
    ({"parameters": {"seed": 1}}, r"parameters name \['seed'\]: use seed="),
    ({"extract": "last"}, "extract='last': must be one of"),
    ({"least_score": 2}, "least_score=2"),
    ({"per_grade": 0}, "per_grade=0"),
    ({"workers": 0}, "workers=0.*set workers to 1 or more"),
  ],
)
def test_refused(arguments, message):
  with pytest.raises(ValueError, match=message):
    make(**arguments)
