"""How are the results of a comparison shown? A page, and a section of one."""

import json
import os
import pathlib

import numpy as np
from matplotlib.figure import Figure

from experiments.comparison import analysis
from jaxroll import pages

FIXED = (
  "one learning rate for all methods: methods with more mixed groups take "
  "larger steps, and a difference may be no more than that; see update_norm, "
  "and prefer --step_size=matched or tuned"
)

_COLOURS = {
  analysis.BETTER: pages.GREEN,
  analysis.WORSE: pages.ORANGE,
  analysis.EQUIVALENT: pages.BLUE,
  analysis.IDENTICAL: pages.BLUE,
  analysis.UNDECIDED: pages.GREY,
  analysis.BASELINE: "black",
}
_SIZES = {
  "matched": "every rollout moves the policy by the same length",
  "tuned": "learning rate tuned for each method on other seeds",
  "fixed": "one learning rate for all methods",
}


def write_json(path, value) -> None:
  """Writes a JSON file, whole or not at all."""
  path = pathlib.Path(path)
  partial = path.with_suffix(f".{os.getpid()}.tmp")
  text = json.dumps(value, indent=2, allow_nan=False)
  partial.write_text(text + "\n", encoding="utf-8")
  os.replace(partial, path)


def summary(records) -> str:
  """A table for the terminal."""
  names = ("method", "difference", "verdict", "least detectable")
  rows = [names] + [
    (
      r["method"],
      _interval(r),
      r["verdict"],
      _number(r.get("minimum_detectable")),
    )
    for r in records
  ]
  widths = [max(len(row[at]) for row in rows) for at in range(len(names))]
  return "\n".join(
    "  ".join(x.ljust(width) for x, width in zip(row, widths)).rstrip()
    for row in rows
  )


def caption(first: dict) -> str:
  """What was compared, from the baseline's record."""
  return (
    f"Task {first['task']}, {first['metric']} at {first['budget']:g} "
    f"{first['budget_unit']}, {first['seeds']} paired seeds; "
    f"{_SIZES[first['step_size']]}. Differences are to {first['method']} "
    f"({_number(first['value'])}, from {_number(first['start'])} before the "
    "first step), with paired 95 % intervals. Verdicts are after Holm's "
    "correction over all methods at 0.05; equivalent: surely within "
    f"{first['margin']:g}. Least detectable: the difference that the strictest "
    "step of the correction finds with the wanted power. Cost to target: "
    f"{first['budget_unit']} "
    f"until {_number(first['target'])}, relative to {first['method']}, over "
    "the seeds where both reach it; reached: seeds that do. Shares, rollouts "
    "and update norm count the whole step that reached the budget. Identical: "
    "no seed differs, since the method could not act here or only rescales "
    "updates, which are rescaled anyway."
  )


def warnings(first: dict) -> list[str]:
  """What a reader must know before the table, from the baseline's record."""
  found = [FIXED] if first["step_size"] == "fixed" else []
  gain = (first["value"] or 0.0) - (first["start"] or 0.0)
  if not gain > first["margin"]:
    found.append(
      f"{first['method']} itself gained {gain:+.4f}, no more than the margin: "
      "such a run can tell no methods apart, and equivalence says nothing; "
      "raise the budget"
    )
  elif first["margin"] > gain / 5:
    found.append(
      f"the margin is {first['margin'] / gain:.0%} of what {first['method']} "
      "gained: equivalent methods may still differ by that much"
    )
  if first["seeds"] < 5:
    found.append(
      f"{first['seeds']} seeds: the spread between seeds is hardly known, and "
      "verdicts may change with more; raise seeds"
    )
  return found


# --- rows


_HEAD = (
  "method",
  "paper's claim",
  "difference",
  "least detectable",
  "p (Holm)",
  "verdict",
  "cost to target",
  "reached",
  "in mixed groups",
  "tied groups",
  "rollouts",
  "update norm",
  "seconds",
)


def _row(r: dict) -> tuple:
  paper = "" if r["paper"] == "-" else f" (arXiv:{r['paper']})"
  start = (r["method"], r["claim"] + paper)
  if r["verdict"] == analysis.FAILED:
    return (*start, r["error"], "", "", r["verdict"], *[""] * 7)
  return (
    *start,
    _interval(r) + _ended(r),
    _number(r.get("minimum_detectable")),
    _p_value(r.get("p_holm")),
    r["verdict"],
    _ratio(r),
    f"{r['reached']} of {r['seeds']}",
    _number(r["mixed_rollout_share"], 3),
    _number(r["zero_variance_share"], 3),
    f"{r['rollouts']:.0f}",
    _number(r["update_norm"]),
    f"{r['seconds']:.1f}",
  )


def _ended(r) -> str:
  """A method that had no prompt left stays where it was until the budget."""
  return f", out of prompts on {r['ended']} seeds" if r["ended"] else ""


def _interval(r) -> str:
  if r["verdict"] in (analysis.BASELINE, analysis.FAILED):
    return "-"
  ends = f"[{_number(r['low'], sign=True)}, {_number(r['high'], sign=True)}]"
  return f"{_number(r['difference'], sign=True)} {ends}"


def _ratio(r) -> str:
  """Cost ratio with its interval; few pairs are said to be few."""
  if r.get("to_target_ratio") is None:
    return "-"
  shown = f"{r['to_target_ratio']:.2f}x"
  if r["to_target_low"] is not None:
    shown += f" [{r['to_target_low']:.2f}, {r['to_target_high']:.2f}]"
  lost = r["seeds"] - r["to_target_pairs"]
  return shown + (f", {lost} seeds censored" if lost else "")


def _p_value(value) -> str:
  return "<0.001" if value is not None and value < 1e-3 else _number(value, 3)


def _number(value, digits: int = 4, *, sign: bool = False) -> str:
  if value is None:
    return "-"
  return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"


# --- HTML


def write_html(workdir, of: analysis.Question, records, cells) -> pathlib.Path:
  """Writes `results.html`, which needs no other file.

  Args:
    workdir: the comparison's.
    of: what was asked.
    records: of `analysis.records`.
    cells: recipe -> list of cells.

  Returns:
    Its path.
  """
  warning = "".join(
    f'<p class="warning">{pages.escape(text)}</p>'
    for text in warnings(records[0])
  )
  table = pages.table(_HEAD, map(_row, records))
  body = "\n".join(
    (
      f"<p>{pages.escape(caption(records[0]))}</p>{warning}",
      _image(forest_figure(records), "Difference to the baseline"),
      f'<div class="wide">{table}</div>',
      _image(curve_figure(of, cells, records), "Mean curves"),
    )
  )
  page = pages.page(f"{of.task}: {len(records)} methods", body)
  path = pathlib.Path(workdir) / "results.html"
  path.write_text(page, encoding="utf-8")
  return path


def _image(figure: Figure, name: str) -> str:
  return pages.image(pages.png(figure), name)


def forest_figure(records) -> Figure:
  """Draws each method's difference with its interval, best on top."""
  first = records[0]
  shown = [r for r in records[1:] if r.get("difference") is not None]
  shown.sort(key=lambda r: r["difference"])
  figure = Figure(figsize=(8.0, 1.3 + 0.32 * len(shown)), layout="constrained")
  axis = figure.subplots()
  margin = first["margin"]
  axis.axvspan(-margin, margin, color="0.93", label="margin of equivalence")
  axis.axvline(0, color="black", linewidth=0.8)
  for place, r in enumerate(shown):
    colour = _COLOURS[r["verdict"]]
    if r["low"] is not None:
      axis.plot([r["low"], r["high"]], [place, place], color=colour)
    axis.plot(r["difference"], place, "o", color=colour, markersize=5)
  axis.set_yticks(
    range(len(shown)), [f"{r['method']} ({r['verdict']})" for r in shown]
  )
  axis.set_ylim(-0.7, max(len(shown) - 0.3, 0.7))
  axis.set_xlabel(f"{first['metric']}: difference to {first['method']}")
  axis.spines[["top", "right"]].set_visible(False)
  axis.legend(frameon=False, fontsize=8, loc="lower right")
  return figure


def curve_figure(of: analysis.Question, cells, records) -> Figure:
  """Draws the mean over seeds of each method's metric against its cost."""
  figure = Figure(figsize=(8.0, 4.0), layout="constrained")
  axis = figure.subplots()
  grid = np.linspace(0, of.budget, 60)
  verdicts = {r["method"]: r["verdict"] for r in records}
  few = len(cells) <= 8
  for place, (name, some) in enumerate(cells.items()):
    mean = np.mean(
      [
        np.interp(grid, cell["curve"][of.unit], cell["curve"][of.metric])
        for cell in some
      ],
      axis=0,
    )
    base = verdicts[name] == analysis.BASELINE
    colour = f"C{place}" if few and not base else _COLOURS[verdicts[name]]
    axis.plot(
      grid,
      mean,
      color=colour,
      linewidth=2.2 if base else 1.0,
      zorder=3 if base else 2,
      label=name if few or base else None,
    )
  axis.set_xlabel(of.unit)
  axis.set_ylabel(of.metric)
  axis.spines[["top", "right"]].set_visible(False)
  axis.legend(frameon=False, fontsize=8)
  return figure


# --- Markdown


def write_page(path, workdirs) -> pathlib.Path:
  """Writes a Markdown page with a section for each comparison.

  Args:
    path: of the page.
    workdirs: of finished comparisons.

  Returns:
    The path.

  Raises:
    ValueError: a workdir has no results.json.
  """
  sections = [_INTRODUCTION]
  for workdir in map(pathlib.Path, workdirs):
    file = workdir / "results.json"
    if not file.exists():
      raise ValueError(f"{file} does not exist: run its comparison first")
    records = json.loads(file.read_text(encoding="utf-8"))
    settings = json.loads((workdir / "comparison.json").read_text("utf-8"))
    sections.append(section(records, settings["config"]))
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
  return path


def section(records, config: dict | None = None) -> str:
  """A comparison as Markdown: caption, count of verdicts, table."""
  first = records[0]
  lines = [
    f"## {first['task']}: {first['metric']}, {first['step_size']} step size",
    "",
    caption(first),
    "",
  ]
  if config is not None:
    lines += [
      f"A step has {config['prompts']} prompts, at most {config['rollouts']} "
      f"rollouts and {config['slots']} slots.",
      "",
    ]
  for text in warnings(first):
    lines += [f"**Warning:** {text}.", ""]
  counts = {}
  for r in records[1:]:
    counts[r["verdict"]] = counts.get(r["verdict"], 0) + 1
  shown = ", ".join(f"{n} {word}" for word, n in sorted(counts.items()))
  lines += [f"Of {len(records) - 1} methods: {shown or 'none'}.", ""]
  head = _HEAD[:-1]  # seconds depend on the machine
  lines += [_line(head), _line(["---"] * len(head))]
  lines += [_line(_row(r)[:-1]) for r in records]
  return "\n".join(lines)


def _line(cells) -> str:
  return f"| {' | '.join(str(x).replace('|', '/') for x in cells)} |"


_INTRODUCTION = """\
# Results

Every method against uniform allocation, at equal cost on paired seeds; what
the papers claim stands beside what was found here. The papers' models, data
and scales are others: a null here does not refute a paper, and a gain does not
confirm one. Methods that made no difference stay in the tables. A method that
saves rollouts takes more steps at equal cost, shorter ones where step sizes are
matched, as a smaller batch would: part of its difference may be that.

Written by `python -m experiments.compare --page=docs/results.md
--workdirs=...` from finished comparisons; not edited by hand."""
