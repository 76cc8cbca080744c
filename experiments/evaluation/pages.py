"""How is an evaluation shown? One page of HTML that needs no other file."""

import pathlib

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from jaxroll import metrics, pages

_PROMPTS = 12  # shown in the table of transcripts


def write(workdir, summary: dict, records: list[dict]) -> pathlib.Path:
  """Writes `report.html`.

  Args:
    workdir: of the evaluation, exists.
    summary: what summary.json holds.
    records: of `measures.transcripts`.

  Returns:
    Its path.
  """
  k = summary["k"]
  about = ("model", "task", "pool", "num_prompts", "k", "temperature")
  caption = (
    "Standard errors and bootstrap intervals (95 %) are over prompts. avg@k is "
    "the mean reward; maj@k takes the answer that most rows of a prompt give. "
    "A row that could not be scored counts for nothing."
  )
  by_grade = summary["by_grade"]
  sections = (
    (
      "Result",
      pages.table(_HEAD, _rates(summary)) + f"<p>{pages.escape(caption)}</p>",
    ),
    ("Attempts and prompts", _image(rate_figure(summary), "rates")),
    (
      "By difficulty",
      pages.table(list(by_grade[0]), [row.values() for row in by_grade]),
    ),
    (
      "Length (tokens)",
      _image(length_figure(records, k), "lengths")
      + pages.table(("quantity", "value"), summary["length"].items()),
    ),
    ("Rows", pages.table(("quantity", "rows"), summary["rows"].items())),
    ("Transcripts", _transcripts(records, k)),
    (
      "About",
      pages.table(("field", "value"), metrics.flatten(_about(summary)).items()),
    ),
  )
  body = "\n".join(f"<h2>{title}</h2>\n{part}" for title, part in sections)
  line = ", ".join(f"{name} {summary[name]}" for name in about)
  title = f"Evaluation: {pathlib.Path(str(summary['model'])).name}"
  page = pages.page(title, f"<p>{pages.escape(line)}</p>\n{body}")
  path = pathlib.Path(workdir) / "report.html"
  path.write_text(page, encoding="utf-8", errors="xmlcharrefreplace")
  return path


def text(summary: dict) -> str:
  """The table of results for a terminal."""
  rows = [_HEAD, *([pages.cell(x) for x in row] for row in _rates(summary))]
  widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
  return "\n".join(
    "  ".join(x.ljust(width) for x, width in zip(row, widths)).rstrip()
    for row in rows
  )


_HEAD = ("measure", "mean", "standard error", "low", "high", "prompts")


def _rates(summary):
  k = summary["k"]
  named = {f"pass@{n}": x for n, x in summary["pass@k"].items()}
  named |= {f"avg@{k}": summary["avg@k"], f"maj@{k}": summary["maj@k"]}
  fields = ("mean", "standard_error", "low", "high", "prompts")
  return [(name, *(x[f] for f in fields)) for name, x in named.items()]


def _about(summary):
  measured = ("by_grade", "length", "rows", "prompts_by_right_rows")
  measured += ("pass@k", "avg@k", "maj@k")
  return {n: x for n, x in summary.items() if n not in measured}


def _transcripts(records, k) -> str:
  """The rows of some prompts, spread over all of them."""
  number = len(records) // k
  shown = min(_PROMPTS, number)
  places = [i * number // shown for i in range(shown)]
  most = min(k, 4)
  names = ("id", "grade", "prompt", "completion", "reward", "length", "stopped")
  rows = [
    [record[name] for name in names]
    for place in places
    for record in records[place * k : place * k + most]
  ]
  note = (
    f"{most} of {k} rows of {shown} of {number} prompts; all of them are in "
    "transcripts.jsonl."
  )
  return f'<p>{note}</p><div class="wide text">{pages.table(names, rows)}</div>'


def _image(figure: Figure, name: str) -> str:
  return pages.image(pages.png(figure), name)


def rate_figure(summary: dict) -> Figure:
  """Draws pass@k against k, and how often prompts were solved."""
  figure, (left, right) = pages.panels(2)
  curve, k = summary["pass@k"], summary["k"]
  tries = [int(n) for n in curve]
  mean, low, high = (
    [_finite(x[name]) for x in curve.values()]
    for name in ("mean", "low", "high")
  )
  left.plot(tries, mean, "o-", color=pages.BLUE, ms=4, label="pass@k")
  left.fill_between(tries, low, high, color=pages.BLUE, alpha=0.2, lw=0)
  most = _finite(summary["maj@k"]["mean"])
  left.axhline(most, color=pages.ORANGE, ls="--", label=f"maj@{k}")
  left.set_xscale("log", base=2)
  left.set_xticks(tries, [str(n) for n in tries])
  left.set_ylim(-0.02, 1.02)
  left.set_xlabel("attempts k")
  left.set_ylabel("share of prompts solved")
  left.legend(frameon=False)
  counts = summary["prompts_by_right_rows"]
  right.bar(range(len(counts)), counts, color=pages.GREEN)
  right.set_xlabel(f"right rows of {k}")
  right.set_ylabel("prompts")
  right.yaxis.set_major_locator(MaxNLocator(integer=True))
  return figure


def length_figure(records: list[dict], k: int) -> Figure:
  """Draws the lengths of right and of other rows."""
  figure, (axis,) = pages.panels(1)
  right = [r["length"] for r in records if r["scored"] and r["reward"] >= 1]
  other = [
    r["length"] for r in records if not (r["scored"] and r["reward"] >= 1)
  ]
  longest = max(right + other)
  width = -(-longest // 40)  # whole tokens
  axis.hist(
    [right, other],
    bins=np.arange(0.5, longest + width, width),
    stacked=True,
    color=[pages.GREEN, pages.GREY],
    label=["right", "not right"],
  )
  axis.set_xlabel("tokens of a row, the stop token included")
  axis.set_ylabel("rows")
  axis.yaxis.set_major_locator(MaxNLocator(integer=True))
  axis.legend(frameon=False)
  return figure


def _finite(value):
  return float("nan") if value is None else value
