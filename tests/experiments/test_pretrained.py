"""A pretrained model on a task of text, from the folder to the results."""

import json

import pytest

from experiments import build, cli, compare, train
from experiments.configs import compare_smollm2, quickstart
from tests.experiments import tiny_text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A tiny Llama with SmolLM2's tokenizer, as a Hugging Face folder."""
  return tiny_text.export(tmp_path_factory.mktemp("hf") / "tiny")


def test_a_run_starts_at_the_weights_and_trains_them(folder, tmp_path):
  config = tiny_text.fill(
    quickstart.get_config(), folder, steps=2, recipe="uniform"
  )
  summary = train.run(config, str(tmp_path / "run"))
  assert summary["steps"] == 2 and summary["rollouts"] == 32
  shown = (tmp_path / "run" / "transcripts.jsonl").read_text(encoding="utf-8")
  assert "<|im_start|>user" in json.loads(shown.splitlines()[0])["prompt"]


def test_methods_are_compared_on_it(folder, tmp_path):
  config = tiny_text.fill(
    compare_smollm2.get_config(), folder, budget=32, eval_every=1
  )
  records = compare.run(config, str(tmp_path), names=["vade"], seeds=2)
  assert [r["method"] for r in records] == ["uniform", "vade"]
  assert all(r["rollouts"] == 32 and r["seeds"] == 2 for r in records)


@pytest.mark.parametrize(
  "changes, said",
  [
    (
      {"model": {"pretrained": "/nowhere"}},
      "pretrained: '/nowhere' is neither",
    ),
    ({"model": {"pretrained": ""}}, "is a task of text: set model.pretrained"),
    ({"task": {"name": "arithmetic"}}, "has a vocabulary of its own"),
    ({"task": {"name": "nosuch:x"}}, "task.name='nosuch:x': must be one of"),
  ],
)
def test_what_does_not_go_together_is_refused(folder, changes, said):
  config = tiny_text.fill(quickstart.get_config(), folder)
  for name, value in changes.items():
    config[name] = value
  with pytest.raises(ValueError, match=said):
    build.task(config.task, build.pretrained(config.model))


def test_slots_need_a_verifier_on_the_device(folder, tmp_path):
  config = tiny_text.fill(compare_smollm2.get_config(), folder, budget=32)
  with pytest.raises(cli.Refused, match="slot_mixed: .*verifies on the host"):
    compare.run(config, str(tmp_path / "x"), names=["slot_mixed"], seeds=2)
