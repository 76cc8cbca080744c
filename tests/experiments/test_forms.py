"""A run on two meshes: one rolls out while the other learns."""

import json

import pytest

from experiments import build, evaluate, forms
from experiments.evaluation import subjects
from jaxroll import metrics, recipes
from tests.experiments import tiny

APART = (
  "--config.mesh.rollout_devices=2",
  "--config.staleness=1",
  "--config.trust=trust.clip,trust.token_weight",
)


def records_of(workdir):
  """The numbers of a run's steps that do not measure the process."""
  names = ("step", "reward", "loss", "grad_norm", "version_lag", "kl")
  return [
    {name: x for name, x in record.items() if name in names}
    for record in metrics.read_metrics(workdir)
  ]


def test_a_stale_run_that_stopped_goes_on(tmp_path):
  whole, halves = tmp_path / "whole", tmp_path / "halves"
  tiny.finished(whole, *APART, "--config.steps=4", devices=4)
  tiny.finished(halves, *APART, "--config.steps=2", devices=4)
  more = ("--resume", "--config.steps=4")
  tiny.finished(halves, *APART, *more, devices=4)
  lags = [record.get("version_lag") for record in records_of(whole)]
  assert lags == [None, 0, 1, 1, 1]
  assert records_of(halves) == records_of(whole)
  summary = json.loads((whole / "summary.json").read_text())
  assert summary["compiles_after_first_step"] == 0
  # What it learned can be read though its checkpoints hold pending steps.
  subject = subjects.load(str(whole))
  found = evaluate.run(
    subject, subject.task, str(tmp_path / "e"), k=2, num_prompts=4
  )
  assert found["step"] == 4 and found["rows"]["scored"] == 8


def test_a_run_that_waits_goes_on_with_one_mesh(tmp_path):
  flags = ("--config.recipe=uniform", "--config.select=")
  apart = (*flags, "--config.mesh.rollout_devices=2", "--config.steps=1")
  tiny.finished(tmp_path, *apart, devices=3)
  tiny.finished(tmp_path, *flags, "--resume", "--config.steps=2", devices=2)
  assert [record["step"] for record in records_of(tmp_path)] == [0, 1, 2]


@pytest.mark.parametrize(
  "changes, message",
  [
    ({"staleness": 1}, "mesh.rollout_devices=0"),
    ({"staleness": -1, "mesh__rollout_devices": 4}, "staleness=-1"),
    ({"mesh__rollout_devices": 8}, r"rollout_devices=8: must be in \[1, 7\]"),
    ({"mesh__rollout_devices": -2}, "rollout_devices=-2: must be in"),
    (
      {"mesh__rollout_devices": 3, "mesh__tensor": 5},
      "mesh.rollout_devices=3 must be a multiple of mesh.tensor",
    ),
  ],
)
def test_what_no_run_can_have_is_refused(changes, message):
  config = tiny.get_config(recipe="uniform", select="", **changes)
  task = build.task(config.task)
  rules = recipes.uniform(build.sizes(config, task))
  with pytest.raises(ValueError, match=message):
    mesh = build.mesh(config.mesh)
    forms.form(config, task, lambda policy, *, mesh: None, None, rules, mesh)
