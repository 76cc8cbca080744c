"""What cannot run is refused by name, before anything is written."""

import re

import pytest

from experiments import build, cli, train
from tests.experiments import tiny


@pytest.mark.parametrize(
  "changes, message",
  [
    ({"recipe": "nosuch"}, r"recipes\.nosuch.*recipes has .*'vigor'"),
    ({"select": "select.nosuch"}, r"select\.nosuch.*select has .*'vade'"),
    ({"select": "nosuch"}, "write select.function"),
    ({"aggregate": "nosuch"}, r"nosuch.*objective\.aggregate has .*token_mean"),
    ({"task__name": "nosuch"}, r"task\.name='nosuch'.*'arithmetic'"),
    ({"task__grades": ("/:1:2",)}, r"grade='/:1:2': give op:digits:terms"),
    (
      {"recipe": "vigor", "rollouts": 8},
      r"vigor needs 20 rows.*budget=8: raise the budget",
    ),
    ({"rollouts": 20}, "rows=20 leave no commit.*rows must be at least 24"),
    ({"prompts": 99, "rollouts": 999}, "prompts=99 .*only 32.*lower prompts"),
    ({"eval_k": 0}, "eval_k=0 must be at least 1"),
    ({"eval_prompts": 1}, "eval_prompts=1 must be at least 2"),
    ({"slots": 0, "steps": -1}, "steps=-1 must be at least 1, slots=0 must be"),
    ({"checkpoints_kept": 0}, "checkpoints_kept=0 must be at least 1"),
    ({"warm_start__rows": 0}, r"warm_start\.rows=0 must be at least 1"),
    ({"warm_start__wrong": 1.0}, r"wrong=1\.0: a share in \[0, 1\)"),
    ({"warm_start__learning_rate": 0.0}, "learning_rate=0.0: must be greater"),
    ({"temperature": -1.0}, r"temperature=-1\.0: must be at least 0"),
    ({"temperature": 0.0}, "temperature=0: .* must be above 0"),
    ({"temperature": float("inf")}, "temperature=inf: must be finite"),
    ({"kl_coefficient": float("nan")}, "kl_coefficient=nan: must be finite"),
    ({"kl_coefficient": -1.0}, "coefficient=-1.0: must be finite and at least"),
    ({"minibatches": 10_000}, "minibatches=10000 exceed rollouts=32"),
    ({"select": "allocate.uniform"}, "write select.function"),
    ({"advantage": "keep.mixed"}, "write advantage.function"),
    ({"objective": "trust.clip"}, "write objective.function"),
    ({"advantage": "advantage.grpo,advantage.rloo"}, "second estimator"),
    ({"trust": "trust.clip,trust.token_weight", "top_k": 5}, "top_k=5"),
    ({"top_k": -1}, "top_k=-1: at least 1"),
    ({"top_p": 0.0}, r"top_p=0\.0: in \(0, 1\]"),
    ({"learning_rate": 0.0}, r"learning_rate=0\.0: must be greater than 0"),
    ({"model__heads": 3}, "heads=3 is not a multiple of kv_heads=2"),
    (
      {"mesh__data": 3},
      "'data': 3.*multiply to 8; nearest: data=8; data=4, fsdp=2",
    ),
    ({"mesh__fsdp": 0}, "'fsdp': 0.*sizes are >= 1"),
  ],
)
def test_refused_before_anything_is_written(tmp_path, changes, message):
  workdir = tmp_path / "run"
  with pytest.raises(cli.Refused, match=message):
    train.run(tiny.get_config(**changes), str(workdir))
  assert not workdir.exists()


@pytest.mark.parametrize(
  "flag, message",
  [
    ("--config.slots=0", "error: slots=0 must be at least 1: raise it"),
    ("--config.slotz=4", "error: --config has no such field.*slotz.*slots"),
    ("stray", "error: unknown arguments .*stray"),
  ],
)
def test_the_binary_says_it_in_one_line(tmp_path, flag, message):
  workdir = tmp_path / "run"
  process = tiny.launch(workdir, flag, file=None)
  assert process.returncode == 2
  assert process.stdout == ""
  (line,) = process.stderr.splitlines()
  assert re.match(message, line)
  assert not workdir.exists()


def test_a_fault_of_the_run_is_no_refusal(tmp_path, monkeypatch):
  def broken(state):
    raise ValueError("a fault")

  monkeypatch.setattr(build, "warm_start", lambda *_: broken)
  with pytest.raises(ValueError, match="a fault") as error:
    train.run(tiny.get_config(), str(tmp_path))
  assert not isinstance(error.value, cli.Refused)
