"""How is an evaluation shown? One page of HTML that needs no other file.

What a model wrote is escaped, control and direction characters are shown as
codes: it cannot become part of the page.
"""

import base64
import html
import io
import pathlib

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from jaxroll import metrics, report

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
      _table(_HEAD, _rates(summary)) + f"<p>{_shown(caption)}</p>",
    ),
    ("Attempts and prompts", _image(rate_figure(summary), "rates")),
    (
      "By difficulty",
      _table(list(by_grade[0]), [row.values() for row in by_grade]),
    ),
    (
      "Length (tokens)",
      _image(length_figure(records, k), "lengths")
      + _table(("quantity", "value"), summary["length"].items()),
    ),
    ("Rows", _table(("quantity", "rows"), summary["rows"].items())),
    ("Transcripts", _transcripts(records, k)),
    (
      "About",
      _table(("field", "value"), metrics.flatten(_about(summary)).items()),
    ),
  )
  body = "\n".join(f"<h2>{title}</h2>\n{part}" for title, part in sections)
  line = ", ".join(f"{name} {summary[name]}" for name in about)
  title = f"Evaluation: {pathlib.Path(str(summary['model'])).name}"
  page = _PAGE.format(title=_shown(title), line=_shown(line), body=body)
  path = pathlib.Path(workdir) / "report.html"
  path.write_text(page, encoding="utf-8", errors="xmlcharrefreplace")
  return path


def text(summary: dict) -> str:
  """The table of results for a terminal."""
  rows = [_HEAD, *([_cell(x) for x in row] for row in _rates(summary))]
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
  return f'<p>{note}</p><div class="wide">{_table(names, rows)}</div>'


def _shown(value) -> str:
  """Markup escaped, control and direction characters as codes."""
  letters = (
    letter
    if letter.isprintable() or letter in "\n\t"
    else f"\\x{ord(letter):x}"
    for letter in str(value)
  )
  return html.escape("".join(letters))


def _cell(value) -> str:
  if isinstance(value, float):
    return "–" if value != value else f"{value:.4g}"
  return "–" if value is None else str(value)


def _table(names, rows) -> str:
  head = "".join(f"<th>{_shown(name)}</th>" for name in names)

  def line(row):
    return "".join(f"<td><div>{_shown(_cell(x))}</div></td>" for x in row)

  body = "\n".join(f"<tr>{line(row)}</tr>" for row in rows)
  return f"<table><tr>{head}</tr>\n{body}</table>"


def _image(figure: Figure, name: str) -> str:
  buffer = io.BytesIO()
  figure.savefig(buffer, format="png", dpi=130)
  encoded = base64.b64encode(buffer.getvalue()).decode()
  return f'<img alt="{name}" src="data:image/png;base64,{encoded}">'


def _panels(number: int):
  figure = Figure(figsize=(9.0, 3.2), layout="constrained")
  axes = figure.subplots(1, number, squeeze=False)[0]
  for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color="0.92", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
  return figure, axes


def rate_figure(summary: dict) -> Figure:
  """Draws pass@k against k, and how often prompts were solved."""
  figure, (left, right) = _panels(2)
  curve, k = summary["pass@k"], summary["k"]
  tries = [int(n) for n in curve]
  mean, low, high = (
    [_finite(x[name]) for x in curve.values()]
    for name in ("mean", "low", "high")
  )
  left.plot(tries, mean, "o-", color=report.BLUE, ms=4, label="pass@k")
  left.fill_between(tries, low, high, color=report.BLUE, alpha=0.2, lw=0)
  most = _finite(summary["maj@k"]["mean"])
  left.axhline(most, color=report.ORANGE, ls="--", label=f"maj@{k}")
  left.set_xscale("log", base=2)
  left.set_xticks(tries, [str(n) for n in tries])
  left.set_ylim(-0.02, 1.02)
  left.set_xlabel("attempts k")
  left.set_ylabel("share of prompts solved")
  left.legend(frameon=False)
  counts = summary["prompts_by_right_rows"]
  right.bar(range(len(counts)), counts, color=report.GREEN)
  right.set_xlabel(f"right rows of {k}")
  right.set_ylabel("prompts")
  right.yaxis.set_major_locator(MaxNLocator(integer=True))
  return figure


def length_figure(records: list[dict], k: int) -> Figure:
  """Draws the lengths of right and of other rows."""
  figure, (axis,) = _panels(1)
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
    color=[report.GREEN, report.GREY],
    label=["right", "not right"],
  )
  axis.set_xlabel("tokens of a row, the stop token included")
  axis.set_ylabel("rows")
  axis.yaxis.set_major_locator(MaxNLocator(integer=True))
  axis.legend(frameon=False)
  return figure


def _finite(value):
  return float("nan") if value is None else value


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #222;
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h2 {{ border-bottom: 1px solid #ddd; margin-top: 2.5rem; }}
img {{ width: 100%; }} table {{ border-collapse: collapse; font-size: 14px; }}
td, th {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid #eee; white-space: pre-wrap;
  overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }}
th {{ white-space: nowrap; overflow-wrap: normal; }}
.wide td:nth-child(3), .wide td:nth-child(4) {{ font-family: monospace;
  min-width: 14rem; }}
.wide td div {{ max-height: 18rem; overflow-y: auto; }}
</style></head><body>
<h1>{title}</h1><p>{line}</p>
{body}
</body></html>
"""
