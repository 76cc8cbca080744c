"""Suite: what do time and memory grow with, and how fast?

Rows, prompt, response, vocabulary and layers (parameters), each doubled
thrice while the others stay: `step_fixed`, whose work is known, in a process
of its own for each point, so that its peak memory is its own.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from experiments.benchmarks import shapes, timing

AXES = ("rows", "prompt", "new", "vocab", "layers")
_ROOT = pathlib.Path(__file__).parents[2]


def points(of: shapes.Shapes, doublings: int = 3) -> list:
  """[(label, shapes)]: the base, then each axis doubled again and again."""
  made = [("growth base", of)]
  for axis in AXES:
    for power in range(1, doublings + 1):
      value = getattr(of, axis) * 2**power
      made.append((f"growth {axis}={value}", of._replace(**{axis: value})))
  return made


def growth(
  of: shapes.Shapes, size: str, repeats: int, doublings: int = 3
) -> list:
  """A row for each point; slots stay as they are, as many as the base's rows.

  Args:
    of: the base.
    size: of the rows.
    repeats: calls that are measured.
    doublings: of each axis.

  Returns:
    A list of `timing.Row`.
  """
  of = of._replace(slots=of.slots or of.rows)
  return [
    measure(at, repeats)._replace(name=name, size=size)
    for name, at in points(of, doublings)
  ]


def measure(of: shapes.Shapes, repeats: int) -> timing.Row:
  """`step_fixed` with these shapes in a fresh process.

  Raises:
    RuntimeError: where that process fails, with what it said last.
  """
  with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / "rows.json"
    command = [sys.executable, "-m", "experiments.bench", "--suite=step"]
    command += ["--only=step_fixed", f"--repeats={repeats}", f"--json={file}"]
    command += [f"--{name}={x}" for name, x in of._asdict().items()]
    ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
    if ended.returncode:
      raise RuntimeError(f"{' '.join(command)}: {ended.stderr[-2000:]}")
    (row,) = json.loads(file.read_text(encoding="utf-8"))
  return timing.Row(**row)


def table(rows: list) -> str:
  """The rows as text; "x" is a figure over that of half the size."""
  base, last = rows[0], rows[0]
  head = ("seconds", "x", "memory MB", "x", "tokens/s", "compile s")
  lines = [f"{'name':<24}" + "".join(f"{word:>12}" for word in head)]
  for row in rows:
    same = row.name.split("=")[0] == last.name.split("=")[0]
    before = last if same else base
    figures = (
      f"{row.median_s:.3f}",
      f"{row.median_s / before.median_s:.2f}",
      f"{row.peak_memory_mb:.0f}",
      f"{row.peak_memory_mb / before.peak_memory_mb:.2f}",
      f"{row.tokens_per_s:.0f}",
      f"{row.compile_s:.1f}",
    )
    lines.append(f"{row.name:<24}" + "".join(f"{x:>12}" for x in figures))
    last = row
  return "\n".join(lines)
