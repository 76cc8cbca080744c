"""What does a page of results consist of? HTML that needs no other file.

What a model wrote is escaped, control and direction characters are shown as
codes: it cannot become part of the page.
"""

import base64
import html
import io
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Okabe and Ito (2008): told apart with any colour vision, and in grey.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"


def escape(value: Any) -> str:
  """Escapes markup, and shows control and direction characters as codes.

  >>> escape("<b>\\x07")
  '&lt;b&gt;\\\\x7'
  """
  shown = (
    letter
    if letter.isprintable() or letter in "\n\t"
    else f"\\x{ord(letter):x}"
    for letter in str(value)
  )
  return html.escape("".join(shown))


def cell(value: Any) -> str:
  """A value as text: four digits of a float, a dash for None and NaN."""
  if value is None or value != value:
    return "–"
  return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
  """A table as HTML.

  Args:
    names: of the columns.
    rows: of values, for `cell`.

  Returns:
    <table>, everything in it escaped.
  """
  head = "".join(f"<th>{escape(name)}</th>" for name in names)

  def line(row):
    return "".join(f"<td><div>{escape(cell(x))}</div></td>" for x in row)

  body = "\n".join(f"<tr>{line(row)}</tr>" for row in rows)
  return f"<table><tr>{head}</tr>\n{body}</table>"


def png(figure: Figure, dpi: int = 130) -> bytes:
  """A figure as a PNG file."""
  buffer = io.BytesIO()
  figure.savefig(buffer, format="png", dpi=dpi)
  return buffer.getvalue()


def image(content: bytes, name: str) -> str:
  """A PNG inside the page; `name` is what is read where it is not seen."""
  encoded = base64.b64encode(content).decode()
  return f'<img alt="{escape(name)}" src="data:image/png;base64,{encoded}">'


def panels(number: int, width: int = 2) -> tuple[Figure, Any]:
  """A figure of `number` plots, at most `width` beside each other.

  Returns:
    The figure, and its axes as a flat array.
  """
  width = min(number, width)
  rows = -(-number // width)
  figure = Figure(figsize=(9.0, 3.2 * rows), layout="constrained")
  figure.get_layout_engine().set(wspace=0.06, hspace=0.06)
  axes = figure.subplots(rows, width, squeeze=False).ravel()
  for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color="0.92", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.xaxis.set_major_locator(
      MaxNLocator(6, integer=True, steps=[1, 2, 5, 10])
    )
  return figure, axes


def page(title: str, body: str) -> str:
  """A whole page.

  Args:
    title: escaped here.
    body: HTML. A `<div class="wide">` scrolls sideways, and its cells down,
      with class `text` in its monospaced ones; also `warning`, `missing`.

  Returns:
    The file's text.
  """
  return _PAGE.format(title=escape(title), body=body)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #222;
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
h2 {{ border-bottom: 1px solid #ddd; margin-top: 2.5rem; }}
img {{ width: 100%; }} table {{ border-collapse: collapse; font-size: 14px; }}
td, th {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid #eee; white-space: pre-wrap;
  overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }}
th {{ white-space: nowrap; overflow-wrap: normal; }}
.wide {{ overflow-x: auto; }} .wide table {{ font-size: 13px; }}
.wide td {{ overflow-wrap: normal; }}
.text td {{ font-family: monospace; overflow-wrap: anywhere; }}
.wide td div {{ max-height: 18rem; overflow-y: auto; }}
.missing {{ color: #777; font-style: italic; }}
.warning {{ color: #D55E00; font-weight: bold; }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""
