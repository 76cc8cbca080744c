"""The report is whole without its optional files, and safe with any text."""

import base64
import json
import re

import numpy as np
import pytest

from jaxroll import metrics, report

STEPS, PROMPTS = 60, 8


@pytest.fixture
def workdir(tmp_path):
  """A run with everything a report can show."""
  with metrics.MetricsWriter(tmp_path) as writer:
    for step in range(1, STEPS + 1):
      record = {
        "reward": step / STEPS,
        "zero_variance_share": 0.5,
        "mean_length": 20.0 + step,
        "generated_tokens": 1000,
        "tokens_per_second": 900.0,
        "loss": -0.1 if step != 7 else float("nan"),
        "kl": 0.01,
        "entropy": 1.0,
        "grad_norm": 0.5,
      }
      if step % 20 == 0:
        record |= {"eval/pass@1": 0.4, "eval/pass@1_se": 0.05}
        record |= {"eval/pass@k": 0.7, "eval_k": 4}
      writer.write(step, record)
  rng = np.random.default_rng(0)
  np.savez(
    tmp_path / "allocation.npz",
    step=np.arange(1, STEPS + 1),
    solve_rate=rng.uniform(size=(STEPS, PROMPTS)),
    count=rng.integers(0, 9, (STEPS, PROMPTS)),
  )
  write_transcripts(tmp_path, ["1 + 1 = 2"])
  metrics.write_summary(tmp_path, {"pass@1": 0.4123456, "tokens": {"all": 9}})
  (tmp_path / "config.json").write_text('{"seed": 3, "opt": {"lr": 0.001}}')
  return tmp_path


@pytest.fixture
def unpainted(monkeypatch):
  """Figures are made but not rendered, which is what takes the time."""
  monkeypatch.setattr(
    report.Figure, "savefig", lambda self, file, **_: file.write(b"png")
  )


def write_transcripts(workdir, completions, step=1):
  with (workdir / "transcripts.jsonl").open("a") as file:
    for completion in completions:
      record = {"step": step, "prompt": "1 + 1 =", "completion": completion}
      record |= {"reward": 1.0, "length": 4, "stopped": True}
      file.write(json.dumps(record) + "\n")


def page_of(workdir) -> str:
  path = report.write_report(workdir)
  assert path == workdir / "report.html"
  return path.read_text(encoding="utf-8")


def section_of(page: str, title: str) -> str:
  return re.search(f"<h2>{title}</h2>(.*?)</section>", page, re.DOTALL)[1]


def test_a_whole_run(workdir):
  page = page_of(workdir)
  assert "Not shown" not in page
  names = ["reward", "allocation", "variance", "length", "optimisation"]
  # Self-contained: the pictures stand in the page, the same as in plots/.
  pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
  assert [base64.b64decode(p) for p in pictures] == [
    (workdir / "plots" / f"{name}.png").read_bytes() for name in names
  ]
  assert all(base64.b64decode(p).startswith(b"\x89PNG") for p in pictures)
  assert not re.search(r'(src|href)="(?!data:)', page)
  for row in (("pass@1", "0.4123"), ("tokens.all", "9"), ("opt.lr", "0.001")):
    first, second = (f"<td><div>{value}</div></td>" for value in row)
    assert first + second in page


def test_what_a_model_wrote_stays_text(workdir, unpainted):
  # A closing tag, an attribute's end, an entity, direction and control
  # characters, half of a surrogate pair.
  write_transcripts(
    workdir,
    [
      "</div></td><script>alert(1)</script>",
      "\"><img src=x onerror='alert(2)'>",
      "&lt;b&gt;",
      "a\u202eb\x00c\ud800d",
      "two\nlines {braces}",
    ],
  )
  shown = section_of(page_of(workdir), "Transcripts")
  assert "<script" not in shown and "<img" not in shown
  for expected in (
    "&lt;/div&gt;&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;",
    "&quot;&gt;&lt;img src=x onerror=&#x27;alert(2)&#x27;&gt;",
    "&amp;lt;b&amp;gt;",
    "a\\x202eb\\x0c\\xd800d",
    "two\nlines {braces}",
  ):
    assert f"<div>{expected}</div>" in shown


def test_names_and_values_of_the_run_are_escaped(workdir, unpainted):
  metrics.write_summary(workdir, {"<b>": "<i>"})
  (workdir / "config.json").write_text('{"prompt": "</table>&"}')
  page = page_of(workdir)
  assert "<div>&lt;b&gt;</div></td><td><div>&lt;i&gt;</div>" in page
  assert "<div>&lt;/table&gt;&amp;</div>" in page


def test_transcripts_are_from_the_first_middle_and_last_step(
  workdir, unpainted
):
  (workdir / "transcripts.jsonl").unlink()
  for step in range(1, 8):
    write_transcripts(workdir, [f"s{step}n{n}" for n in range(10)], step)
  shown = section_of(page_of(workdir), "Transcripts")
  found = re.findall(r"<div>(s\dn\d)</div>", shown)
  assert found == [f"s{step}n{n}" for step in (1, 4, 7) for n in range(8)]
  assert "24 of 70" in shown


@pytest.mark.parametrize(
  "name, title, message",
  [
    ("summary.json", "Result", "no summary.json"),
    ("config.json", "Config", "no config.json"),
    ("allocation.npz", "Where the rollouts went", "no allocation.npz"),
    ("transcripts.jsonl", "Transcripts", "no transcripts.jsonl"),
    ("metrics.jsonl", "Reward and solved prompts", "has none of its numbers"),
    ("metrics.jsonl", "Optimisation", "has none of its numbers"),
  ],
)
def test_a_missing_file_is_said(workdir, unpainted, name, title, message):
  (workdir / name).unlink()
  page = page_of(workdir)
  assert message in section_of(page, title)
  assert "Not shown" in section_of(page, title)
  other = "Transcripts" if title != "Transcripts" else "Config"
  assert "Not shown" not in section_of(page, other)


def test_an_empty_run_has_a_report(tmp_path):
  page = page_of(tmp_path)
  assert page.count("Not shown") == page.count("<section>") == 8


def test_config_out_of_the_summary(workdir, unpainted):
  (workdir / "config.json").unlink()
  metrics.write_summary(workdir, {"pass@1": 0.5, "config": {"seed": 11}})
  page = page_of(workdir)
  assert "<div>seed</div></td><td><div>11</div>" in section_of(page, "Config")
  assert "seed" not in section_of(page, "Result")


@pytest.mark.parametrize("damage", ["torn", "shapes", "names"])
def test_an_unusable_allocation_is_said(workdir, unpainted, damage):
  path = workdir / "allocation.npz"
  step, rate = np.arange(3), np.zeros((3, 2))
  if damage == "torn":
    path.write_bytes(path.read_bytes()[:100])
  elif damage == "shapes":
    np.savez(path, step=step, solve_rate=rate, count=rate[:, :1])
  else:
    np.savez(path, step=step, solve_rate=rate)
  shown = section_of(page_of(workdir), "Where the rollouts went")
  assert "Not shown: allocation.npz" in shown


def run_of(workdir, records):
  return report.Run(workdir, records, {})


def test_reward_curves_and_standard_errors(tmp_path):
  records = [
    {"step": 0, "eval/pass@1": 0.25, "eval/pass@1_se": 0.05, "eval_k": 4},
    {"step": 1, "reward": 0.5},
    {"step": 2, "reward": None},
    {"step": 3, "reward": 0.75, "eval/pass@1": 0.5, "eval/pass@1_se": 0.1},
  ]
  records[3]["eval/pass@k"] = 0.875
  figure, caption = report.reward_figure(run_of(tmp_path, records))
  left, right = figure.axes
  np.testing.assert_array_equal(left.lines[0].get_xdata(), [1, 2, 3])
  np.testing.assert_array_equal(left.lines[0].get_ydata(), [0.5, np.nan, 0.75])
  np.testing.assert_array_equal(right.lines[0].get_xdata(), [0, 3])
  np.testing.assert_array_equal(right.lines[0].get_ydata(), [0.25, 0.5])
  np.testing.assert_array_equal(right.lines[1].get_ydata(), [0.875])
  band = right.collections[0].get_paths()[0].vertices
  np.testing.assert_allclose(band[:, 1].min(), 0.2)  # 0.25 - 0.05
  np.testing.assert_allclose(band[:, 1].max(), 0.6)  # 0.5 + 0.1
  labels = [text.get_text() for text in right.get_legend().get_texts()]
  assert labels == ["pass@1", "pass@4"]
  assert "one standard error" in caption
  assert left.get_xlabel() and left.get_ylabel() and right.get_ylabel()


def test_a_run_without_evaluations_says_so(tmp_path):
  figure, caption = report.reward_figure(
    run_of(tmp_path, [{"step": 1, "reward": 0.5}])
  )
  assert figure.axes[1].texts[0].get_text() == "not evaluated"
  assert "standard error" not in caption


def test_running_mean_leaves_null_out(tmp_path):
  # 40 records: the mean takes 2 * (40 // 40) + 1 = 3 of them.
  values = [1.0, None, 4.0] + [7.0] * 37
  records = [{"step": n, "kl": value} for n, value in enumerate(values)]
  figure, caption = report.optimisation_figure(run_of(tmp_path, records))
  loss, kl = figure.axes[:2]
  assert "no loss in metrics.jsonl" in loss.texts[0].get_text()
  every, mean = kl.lines
  assert len(every.get_ydata()) == 40 and "mean of 3 steps" in caption
  # (1), (1 + 4) / 2, (4 + 7) / 2, (4 + 7 + 7) / 3, 7 ...
  np.testing.assert_allclose(mean.get_ydata()[:5], [1, 2.5, 5.5, 6, 7])


def test_allocation_by_solve_rate_and_time(tmp_path):
  # Three steps of two prompts; solve rates 0 and 1 stay within the bins.
  np.savez(
    tmp_path / "allocation.npz",
    step=np.array([1, 2, 3]),
    solve_rate=np.array([[0.0, 1.0], [0.05, 0.09], [0.55, 1.0]]),
    count=np.array([[2, 4], [1, 6], [8, 3]]),
  )
  figure, _ = report.allocation_figure(run_of(tmp_path, []))
  left, right = figure.axes[:2]
  grid = left.collections[0].get_array().reshape(10, 3)
  expected = np.full((10, 3), np.nan)
  expected[0, 0], expected[9, 0] = 2, 4
  expected[0, 1] = 3.5  # (1 + 6) / 2
  expected[5, 2], expected[9, 2] = 8, 3
  np.testing.assert_array_equal(np.ma.filled(grid, np.nan), expected)
  for line, column in zip(right.lines, expected.T):
    np.testing.assert_array_equal(line.get_ydata(), column)
  np.testing.assert_allclose(right.lines[0].get_xdata()[[0, 9]], [0.05, 0.95])


def test_no_directory(tmp_path):
  with pytest.raises(ValueError, match="is no directory: give a run's"):
    report.write_report(tmp_path / "nowhere")
