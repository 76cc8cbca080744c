"""The notebook runs as it stands, in few lines, and shows what it says."""

import json
import os
import pathlib

import nbclient
import nbformat
import pytest

ROOT = pathlib.Path(__file__).parent.parent
PATH = ROOT / "colabs" / "adaptive_rollouts.ipynb"
# Read in the notebook's own kernel, once it has run.
PROBE = """
import json

def measure(params, log, _):
  lost = 0
  for *_, rows, reward, counts, _ in log:
    tied = numerics.group_tied(reward, rows.group, P, rows.valid)
    lost += int(jnp.sum(counts * tied))
  return {
    "rows": [int(counts.sum()) for *_, counts, _ in log],
    "lost": lost,
    "before": float(pass_at_1(base.params)[0]),
    "after": float(pass_at_1(params)[0]),
  }

print(json.dumps({name: measure(*run) for name, run in runs.items()}))
"""


def read():
  return nbformat.read(PATH, as_version=4)


def code(notebook, *without):
  """Code cells that have none of the tags."""
  return [
    cell
    for cell in notebook.cells
    if cell.cell_type == "code" and not set(cell.metadata.tags) & set(without)
  ]


def test_the_loop_is_short_and_made_of_library_functions():
  cells = code(read(), "install", "import", "plot")
  assert all(cell.metadata.tags == ["loop"] for cell in cells)
  lines = [line.strip() for cell in cells for line in cell.source.splitlines()]
  lines = [line for line in lines if line and not line.startswith("#")]
  assert len(lines) < 60
  loop = "\n".join(lines)
  assert "rollout.generate(" in loop and "allocator.counts(" in loop
  assert "make_step" not in loop


def test_it_is_kept_without_outputs():
  for cell in code(read()):
    assert cell.outputs == [] and cell.execution_count is None


@pytest.fixture(scope="module")
def executed():
  notebook = read()
  probe = nbformat.v4.new_code_cell(PROBE, metadata={"tags": ["probe"]})
  notebook.cells.append(probe)
  environment = os.environ | {
    "PYTHONPATH": str(ROOT),
    "JAX_PLATFORMS": "cpu",
    "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".jax_cache"),
  }
  # One device, as a reader has.
  environment.pop("XLA_FLAGS")
  client = nbclient.NotebookClient(
    notebook, timeout=300, resources={"metadata": {"path": str(PATH.parent)}}
  )
  return client.execute(env=environment)


def test_it_runs_and_plots(executed):
  plots = [cell for cell in code(executed) if "plot" in cell.metadata.tags]
  assert len(plots) == 2
  for cell in plots:
    images = [o for o in cell.outputs if "image/png" in o.get("data", {})]
    assert len(images) == 1
  for cell in code(executed, "plot", "probe"):
    assert cell.outputs == []  # nor does it install or warn


def test_budget_is_spent_and_the_text_is_true(executed):
  runs = json.loads(executed.cells[-1].outputs[0].text)
  equal, adaptive = runs["equal groups"], runs["adaptive"]
  assert equal["rows"] == adaptive["rows"] == 30 * [256]
  assert adaptive["lost"] < 0.7 * equal["lost"]  # "about half as many"
  for run in runs.values():
    # Four standard errors of a difference of two independent measurements.
    assert run["after"] > run["before"] + 0.13
