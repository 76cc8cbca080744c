"""evaluate: a trained run and a pretrained model, numbers, refusals, pages."""

import json
import types as python_types

import jax
import numpy as np
import pytest

from experiments import cli
from experiments import evaluate as binary
from experiments.evaluation import measures, sampling, subjects
from jaxroll import environments, models, rollout
from jaxroll.environments import vocabulary
from tests.experiments import tiny

K, PROMPTS = 4, 8


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  """The workdir of a training run of two steps."""
  workdir = tmp_path_factory.mktemp("run")
  tiny.finished(workdir, "--config.steps=2")
  return workdir


@pytest.fixture(scope="module")
def evaluated(run, tmp_path_factory):
  """An evaluation of that run by the binary: its directory and output."""
  workdir = tmp_path_factory.mktemp("evaluated") / "it"
  before = sorted(p.name for p in (run / "checkpoints").iterdir())
  process = tiny.finished(
    workdir,
    f"--model={run}",
    f"--k={K}",
    f"--num_prompts={PROMPTS}",
    "--prompts_at_once=3",
    module="experiments.evaluate",
    file=None,
  )
  assert sorted(p.name for p in (run / "checkpoints").iterdir()) == before
  return workdir, process


def read(workdir):
  lines = (workdir / "transcripts.jsonl").read_text().splitlines()
  return json.loads((workdir / "summary.json").read_text()), [
    json.loads(line) for line in lines
  ]


def test_the_numbers_are_those_of_the_transcripts(evaluated):
  summary, records = read(evaluated[0])
  assert summary["step"] == 2 and summary["task"] == "arithmetic"
  assert len(records) == K * summary["num_prompts"] == K * PROMPTS
  reward = np.array([r["reward"] for r in records]).reshape(PROMPTS, K)
  assert 0 < reward.mean() < 1
  length = np.array([r["length"] for r in records])
  for measure in (summary["pass@k"]["1"], summary["avg@k"]):
    np.testing.assert_allclose(measure["mean"], reward.mean(), rtol=1e-5)
    assert measure["low"] <= measure["mean"] <= measure["high"]
  assert list(summary["pass@k"]) == ["1", "2", "4"]
  np.testing.assert_allclose(
    summary["pass@k"]["4"]["mean"], reward.max(axis=1).mean(), rtol=1e-6
  )
  votes = []
  for i in range(PROMPTS):
    own = records[i * K : (i + 1) * K]
    texts = [r["completion"] for r in own if r["stopped"]]
    most = max((texts.count(t) for t in texts), default=0)
    wins = [
      r["reward"]
      for r in own
      if r["stopped"] and texts.count(r["completion"]) == most
    ]
    votes.append(np.mean(wins) if wins else 0.0)
  np.testing.assert_allclose(summary["maj@k"]["mean"], np.mean(votes), 1e-5)
  np.testing.assert_allclose(summary["length"]["mean"], length.mean())
  assert summary["rows"]["generated_tokens"] == length.sum()
  assert sum(g["prompts"] for g in summary["by_grade"]) == PROMPTS
  assert sum(summary["prompts_by_right_rows"]) == PROMPTS


def test_the_page_and_the_table(evaluated):
  workdir, process = evaluated
  page = (workdir / "report.html").read_text()
  assert page.count("data:image/png") == 2 and "Transcripts" in page
  assert "maj@4" in page and "<script" not in page
  assert "pass@2" in process.stdout


def test_prompts_at_once_change_nothing(run, evaluated, tmp_path):
  subject = subjects.load(str(run / "checkpoints"), step=2)
  task = subjects.task("", "", subject)
  binary.run(subject, task, tmp_path / "a", k=K, num_prompts=PROMPTS)
  first, second = read(evaluated[0])[1], read(tmp_path / "a")[1]
  assert first == second


def test_another_task_of_the_same_vocabulary(run):
  subject = subjects.load(str(run))
  found = subjects.task(
    "arithmetic", '{"grades": ["-:1:2"], "per_grade": 4}', subject
  )
  assert found.grades == ("-:1:2",)


@pytest.mark.parametrize(
  "name, arguments, message",
  [
    ("sums", "", "task='sums': must be one of .*arithmetic"),
    ("host_task", "", "must be one of"),
    ("", '{"per_grade": 4}', "without --task"),
    ("arithmetic", "{", "not JSON"),
    ("arithmetic", "[1]", "give an object"),
    ("arithmetic", '{"pergrade": 1}', "does not take these.*pergrade"),
    ("arithmetic", '{"grades": []}', "grades"),
    ("arithmetic:+", '{"grades": []}', r"leave :\+ out"),
  ],
)
def test_tasks_refused(run, name, arguments, message):
  subject = subjects.Subject(None, None, 24, None, environments.countdown, {})
  with pytest.raises(ValueError, match=message):
    subjects.task(name, arguments, subject)


def test_models_refused(run, tmp_path):
  with pytest.raises(ValueError, match="holds no step 77"):
    subjects.load(str(run), step=77)
  with pytest.raises(ValueError, match="step=1, but .*no training run"):
    subjects.load(str(tmp_path / "x.gguf"), step=1)
  with pytest.raises(ValueError, match="x.gguf"):
    subjects.load(str(tmp_path / "x.gguf"))
  (tmp_path / "checkpoints").mkdir()
  with pytest.raises(ValueError, match="holds no steps"):
    subjects.load(str(tmp_path))


def test_numbers_refused(tmp_path):
  subject = subjects.Subject(None, None, 24, None, None, {"model": "m"})
  task = environments.arithmetic(grades=("+:1:2",), eval_per_grade=0)
  for changes, message in (
    ({"k": 0}, "k=0: must be at least 1"),
    ({"temperature": 0.0}, "temperature=0 with k=8"),
    ({"temperature": -1.0}, "temperature=-1.0"),
    ({"top_p": 2.0}, "top_p=2.0"),
    ({"resamples": 5}, "resamples=5"),
    ({"answer": "sum"}, "answer='sum'"),
    ({}, "eval pool is empty"),
  ):
    with pytest.raises(cli.Refused, match=message):
      binary.run(subject, task, tmp_path / "w", **changes)
  assert not (tmp_path / "w").exists()


# --- a model with a tokenizer, and a verifier on the host


def pretrained():
  """A model of one letter a token that a task may be given the tokens of."""
  config = models.Config(vocab_size=vocabulary.SIZE, embed=16, layers=1)
  lm = models.policy(config)
  return subjects.Subject(
    lm,
    lm.init(jax.random.key(0)),
    config.vocab_size,
    vocabulary.DEFAULT,
    None,
    {"model": "<b>mine</b>"},
  )


def hostile(*, tokenizer, first="x"):
  """A task whose prompts are markup, and whose scorer fails now and then."""

  def scorer(prompt, completion, answer):
    if "2" in completion:
      raise RuntimeError("cannot")
    return float("1" in completion)

  letters = vocabulary.characters(vocabulary.CHARACTERS)
  shown = letters._replace(
    decode=lambda ids: f"<script>{sum(ids) % 3}</script>\x07"
  )
  return environments.host_task(
    f"hostile:{first}",
    [(f"{i}+1=", i + 1) for i in range(6)],
    scorer,
    response_length=5,
    vocabulary=shown,
    eval_fraction=0.5,
  )


def test_text_tasks_get_the_tokenizer(monkeypatch, tmp_path):
  fake = python_types.SimpleNamespace(
    __all__=["arithmetic", "hostile"],
    hostile=hostile,
    arithmetic=environments.arithmetic,
  )
  monkeypatch.setattr(subjects, "environments", fake)
  subject = pretrained()
  with pytest.raises(ValueError, match="no tokenizer"):
    subjects.task("hostile:y", "", subject._replace(tokenizer=None))
  with pytest.raises(ValueError, match="tokens of its own"):
    subjects.task("arithmetic", "", subject)
  with pytest.raises(ValueError, match="no task of its own"):
    subjects.task("", "", subject)
  task = subjects.task("hostile:y", "", subject)
  assert task.name == "hostile:y"

  summary = binary.run(subject, task, tmp_path / "w", k=6, num_prompts=3)
  rows = summary["rows"]
  assert rows["drawn"] == 18 and 0 < rows["unscorable"] < 18
  assert rows["scored"] + rows["unscorable"] == 18
  page = (tmp_path / "w" / "report.html").read_text()
  assert "<script" not in page and "<b>" not in page and "\x07" not in page
  with pytest.raises(cli.Refused, match="not empty"):
    binary.run(subject, task, tmp_path / "w", k=1, num_prompts=1)


def test_identities():
  texts = [["so #### 4", "4.0", "FOUR", "four ", "", "4"]]
  stopped = [[True] * 5 + [False]]
  for identity, expected in (
    ("row", [0, 1, 2, 3, -1, -1]),
    ("text", [0, 1, 2, 2, -1, 0]),
    ("number", [0, 0, 1, 1, -1, 0]),
  ):
    found = sampling.identities(texts, stopped, identity)
    np.testing.assert_array_equal(found, [expected])


def test_powers_and_pools():
  assert [measures.powers(k) for k in (1, 8, 12)] == [
    [1],
    [1, 2, 4, 8],
    [1, 2, 4, 8, 12],
  ]
  task = environments.arithmetic(
    grades=("+:2:2", "-:2:2"), per_grade=4, eval_per_grade=4
  )
  ids = sampling.chosen(task, "eval", 4)
  assert task.grade[ids].tolist() == [0, 0, 1, 1]
  assert len(sampling.chosen(task, "train", 99)) == 8
  assert float(rollout.sampler(1.0).temperature) == 1.0
