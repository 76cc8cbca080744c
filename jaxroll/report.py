"""What did a run do? One page of HTML that can be mailed to somebody.

Everything is read back from the run's directory, nothing is computed anew:

  metrics.jsonl      one record a step
  summary.json       the run's results
  config.json        the run's config (or "config" inside summary.json)
  allocation.npz     step [M], solve_rate [M, P], count [M, P]: where the
                     rollouts went, and what was believed before they did
  transcripts.jsonl  step, prompt, completion, reward, length, stopped

Only metrics.jsonl is needed; a section whose file is missing says so. What a
model wrote is escaped: it cannot become part of the page.
"""

import json
import pathlib
import zipfile
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from jaxroll import metrics, pages
from jaxroll.pages import BLUE, GREEN, GREY, ORANGE

_RATE_BINS = 10  # solve rates 0 ... 1
_TIME_BINS = 40  # columns of the allocation map
_SHOWN = 8  # transcripts shown of the first, the middle and the last step


class Missing(Exception):
  """A section cannot be made; says what is missing."""


class Run(NamedTuple):
  """What a run's directory holds."""

  workdir: pathlib.Path
  records: list[dict]
  summary: dict


def write_report(workdir) -> pathlib.Path:
  """Writes `plots/*.png` and the self-contained `report.html`.

  Args:
    workdir: a run's directory.

  Returns:
    The path of `report.html`.

  Raises:
    ValueError: workdir does not exist.

  Example:
    >>> write_report(workdir).name
    'report.html'
  """
  workdir = pathlib.Path(workdir)
  if not workdir.is_dir():
    raise ValueError(f"{workdir} is no directory: give a run's --workdir")
  summary = _read_json(workdir / metrics.SUMMARY)
  run = Run(workdir, metrics.read_metrics(workdir), summary)
  (workdir / "plots").mkdir(exist_ok=True)
  sections = [
    _section("Result", run, _summary_table),
    _section("Reward and solved prompts", run, _plotted(reward_figure)),
    _section("Where the rollouts went", run, _plotted(allocation_figure)),
    _section("Groups without a signal", run, _plotted(variance_figure)),
    _section("Length and speed", run, _plotted(length_figure)),
    _section("Optimisation", run, _plotted(optimisation_figure)),
    _section("Transcripts", run, _transcript_table),
    _section("Config", run, _config_table),
  ]
  page = pages.page(workdir.resolve().name, "\n".join(sections))
  path = workdir / "report.html"
  path.write_text(page, encoding="utf-8", errors="xmlcharrefreplace")
  return path


# --- pieces of the page


def _section(title: str, run: Run, make: Callable[[Run], str]) -> str:
  try:
    body = make(run)
  except Missing as reason:
    body = f'<p class="missing">Not shown: {pages.escape(reason)}.</p>'
  return f"<section><h2>{title}</h2>\n{body}\n</section>"


def _plotted(figure_of: Callable[[Run], tuple[Figure, str]]):
  def make(run: Run) -> str:
    figure, caption = figure_of(run)
    if not any(axis.has_data() for axis in figure.axes):
      raise Missing("metrics.jsonl has none of its numbers")
    name = figure_of.__name__.removesuffix("_figure")
    path = run.workdir / "plots" / f"{name}.png"
    content = pages.png(figure, dpi=150)
    path.write_bytes(content)
    return f"{pages.image(content, name)}\n<p>{pages.escape(caption)}</p>"

  return make


def _read_json(path: pathlib.Path) -> dict:
  try:
    return json.loads(path.read_text(encoding="utf-8"))
  except FileNotFoundError:
    return {}
  except json.JSONDecodeError as error:
    raise ValueError(f"{path} is not JSON ({error}): delete it") from error


def _summary_table(run: Run) -> str:
  rows = metrics.flatten({**run.summary, "config": {}})
  del rows["config"]
  if not rows:
    raise Missing("no summary.json; the run has not ended")
  return pages.table(("quantity", "value"), rows.items())


def _config_table(run: Run) -> str:
  config = _read_json(run.workdir / "config.json")
  rows = metrics.flatten(config or run.summary.get("config", {}))
  if not rows:
    raise Missing("no config.json")
  return pages.table(("field", "value"), rows.items())


def _transcript_table(run: Run) -> str:
  records = metrics.read_records(run.workdir / "transcripts.jsonl")
  if not records:
    raise Missing("no transcripts.jsonl, or it is empty")
  steps = sorted({record["step"] for record in records})
  chosen = sorted({steps[0], steps[len(steps) // 2], steps[-1]})
  names = ("step", "prompt", "completion", "reward", "length", "stopped")
  rows = [
    [record.get(name) for name in names]
    for step in chosen
    for record in [r for r in records if r["step"] == step][:_SHOWN]
  ]
  note = f"{len(rows)} of {len(records)}, of the first, middle and last step."
  return f'<p>{note}</p><div class="wide text">{pages.table(names, rows)}</div>'


# --- figures


def _column(run: Run, name: str) -> tuple[np.ndarray, np.ndarray]:
  """Returns the steps that have a metric, and its values (null is NaN)."""
  pairs = [(r["step"], r[name]) for r in run.records if name in r]
  if not pairs:
    raise Missing(f"no {name} in metrics.jsonl")
  steps, values = zip(*pairs)
  return np.array(steps), np.array(values, float)


def _smooth(values: np.ndarray) -> tuple[np.ndarray, int]:
  """Returns the mean over a centred window, NaN left out, and its width."""
  width = 2 * (len(values) // 40) + 1
  known = np.isfinite(values)
  ones = np.ones(width)
  total = np.convolve(np.where(known, values, 0.0), ones, "same")
  count = np.convolve(known.astype(float), ones, "same")
  mean = np.divide(
    total, count, out=np.full(len(values), np.nan), where=count > 0
  )
  return mean, width


def _panels(number: int) -> tuple[Figure, np.ndarray]:
  figure, axes = pages.panels(number)
  for axis in axes:
    axis.set_xlabel("training step")
  return figure, axes


def _draw(axis, run: Run, name: str, label: str, colour: str = BLUE) -> int:
  """Draws every step in pale and a running mean; returns the mean's width."""
  axis.set_ylabel(label)
  try:
    steps, values = _column(run, name)
  except Missing as reason:
    _write(axis, str(reason))
    return 1
  mean, width = _smooth(values)
  if width > 1:
    axis.plot(steps, values, color=colour, alpha=0.25, linewidth=0.8)
  single = "o" if len(steps) == 1 else None
  axis.plot(steps, mean, color=colour, linewidth=1.8, marker=single)
  return width


def _write(axis, text: str) -> None:
  axis.text(0.5, 0.5, text, ha="center", color=GREY, transform=axis.transAxes)


def _mean_note(width: int) -> str:
  smoothed = f"Pale: every step; dark: mean of {width} steps around each."
  return smoothed if width > 1 else "Each point is one step."


def reward_figure(run: Run) -> tuple[Figure, str]:
  """Draws the training reward and the evaluations, with standard errors."""
  figure, (left, right) = _panels(2)
  width = _draw(left, run, "reward", "mean reward of a step's rollouts")
  left.set_title("Training", loc="left")
  right.set_title("Evaluation", loc="left")
  right.set_ylabel("share of prompts solved")
  tries = next((r["eval_k"] for r in run.records if "eval_k" in r), "k")
  for name, label, colour, marker in (
    ("eval/pass@1", "pass@1", BLUE, "o"),
    ("eval/pass@k", f"pass@{tries}", ORANGE, "s"),
  ):
    try:
      steps, values = _column(run, name)
    except Missing:
      continue
    right.plot(steps, values, color=colour, marker=marker, ms=4, label=label)
    errors = np.array(
      [r.get(f"{name}_se") or 0.0 for r in run.records if name in r], float
    )
    right.fill_between(
      steps, values - errors, values + errors, color=colour, alpha=0.2, lw=0
    )
  if not right.lines:
    _write(right, "not evaluated")
    return figure, _mean_note(width)
  right.set_ylim(-0.02, 1.02)
  right.legend(frameon=False)
  return figure, f"{_mean_note(width)} Band: one standard error to either side."


def allocation_figure(run: Run) -> tuple[Figure, str]:
  """Draws rollouts a prompt against the believed solve rate, over time."""
  step, rate, count = _read_allocation(run.workdir / "allocation.npz")
  edges = np.linspace(0, 1, _RATE_BINS + 1)
  bins = np.clip(np.digitize(rate, edges) - 1, 0, _RATE_BINS - 1)
  columns = min(_TIME_BINS, len(step))
  column = np.arange(len(step)) * columns // len(step)
  grid = _bin_means(column, bins, count, columns)
  figure, (left, right) = _panels(2)
  left.grid(False)
  first = np.searchsorted(column, np.arange(columns))
  ends = np.append(step[first], step[-1] + 1)
  image = left.pcolormesh(ends, edges, grid.T, cmap="cividis", vmin=0)
  figure.colorbar(image, ax=left, label="rollouts a prompt")
  left.set_ylabel("solve rate believed before the step")
  left.set_title("Over time", loc="left")
  third = np.arange(len(step)) * 3 // len(step)
  curves = _bin_means(third, bins, count, 3)
  middles = (edges[:-1] + edges[1:]) / 2
  for curve, part, colour, marker in zip(
    curves, ("first", "second", "last"), (GREY, BLUE, ORANGE), "^os"
  ):
    if np.isfinite(curve).any():
      style = {"color": colour, "marker": marker, "markersize": 4}
      right.plot(middles, curve, label=f"{part} third", **style)
  right.set_xlim(0, 1)
  right.set_ylim(bottom=0)
  right.xaxis.set_major_locator(MaxNLocator(5))
  right.set_xlabel("solve rate believed before the step")
  right.set_ylabel("rollouts a prompt")
  right.set_title("By part of the run", loc="left")
  right.legend(frameon=False)
  return figure, (
    "Mean number of rollouts that a prompt was given, by the solve rate that "
    "it was believed to have. Blank: no prompt was believed to be there."
  )


def _read_allocation(path: pathlib.Path):
  if not path.exists():
    raise Missing("no allocation.npz")
  try:
    with np.load(path) as arrays:
      step, rate, count = (arrays[n] for n in ("step", "solve_rate", "count"))
  except (KeyError, OSError, ValueError, zipfile.BadZipFile) as error:
    raise Missing(f"allocation.npz cannot be read ({error})") from error
  if not (len(step) == len(rate) and rate.shape == count.shape):
    shapes = f"{step.shape}, {rate.shape}, {count.shape}"
    raise Missing(f"allocation.npz has shapes {shapes}, not [M], [M, P] twice")
  if not step.size:
    raise Missing("allocation.npz is empty")
  return step, rate, count


def _bin_means(row, bins, count, rows: int) -> np.ndarray:
  """Returns the mean count by row and bin, NaN where there is none."""
  flat = (row[:, None] * _RATE_BINS + bins).ravel()
  size = rows * _RATE_BINS
  total = np.bincount(flat, weights=count.ravel(), minlength=size)
  number = np.bincount(flat, minlength=size)
  mean = np.divide(total, number, out=np.full(size, np.nan), where=number > 0)
  return mean.reshape(rows, _RATE_BINS)


def variance_figure(run: Run) -> tuple[Figure, str]:
  """Draws the share of groups whose rollouts all had the same reward."""
  figure, (axis,) = _panels(1)
  note = _mean_note(_draw(axis, run, "zero_variance_share", "share of groups"))
  axis.set_ylim(-0.02, 1.02)
  what = "Groups whose rollouts all had the same reward, which teach nothing."
  return figure, f"{what} {note}"


def length_figure(run: Run) -> tuple[Figure, str]:
  """Draws response lengths and the speed of the run."""
  figure, (left, right) = _panels(2)
  width = _draw(left, run, "mean_length", "mean response length (tokens)")
  warm = run._replace(records=[r for r in run.records if not r.get("compiles")])
  speed = ("tokens_per_second", "generated tokens a second", GREEN)
  other = _draw(right, warm, *speed)
  for axis in (left, right):
    axis.set_ylim(bottom=0)
  note = _mean_note(max(width, other))
  return figure, f"Speed is of the steps that compiled nothing. {note}"


def optimisation_figure(run: Run) -> tuple[Figure, str]:
  """Draws loss, KL, entropy and gradient norm."""
  figure, axes = _panels(4)
  labels = {
    "loss": "loss",
    "kl": "KL divergence (nats a token)",
    "entropy": "entropy (nats a token)",
    "grad_norm": "gradient norm",
  }
  widths = [_draw(axis, run, *item) for axis, item in zip(axes, labels.items())]
  # One update a step leaves rounding errors, which are nothing to look at.
  axes[1].set_ylim(0, max(1e-6, axes[1].get_ylim()[1]))
  return figure, _mean_note(max(widths))
