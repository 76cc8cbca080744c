"""The code stays as it was laid out: imports, exports, tests, words, sizes."""

import ast
import importlib
import inspect
import pathlib
import re

import pytest

from jaxroll import recipe, types

ROOT = pathlib.Path(__file__).parent.parent
FILES = sorted((ROOT / "jaxroll").rglob("*.py"))
EXPERIMENTS = sorted((ROOT / "experiments").rglob("*.py"))
SHOWN = lambda path: str(path.relative_to(ROOT))  # noqa: E731

FAMILIES = (
  "advantage",
  "allocate",
  "environments",
  "keep",
  "mixture",
  "objective",
  "replay",
  "reward",
  "select",
  "trust",
)
_BASE = {"numerics", "types"}
_METHODS = _BASE | {"apportion", "bandit", "posterior"}
_RECIPE = _METHODS | set(FAMILIES)

# What each part of the library may import of the others. Imports point one
# way, so that a part can be read, and used, without those that stand on it.
MAY_IMPORT = {
  "types": set(),
  "numerics": set(),
  "apportion": _BASE,
  "bandit": _BASE | {"beta_draws"},
  "beta_draws": _BASE,
  "posterior": _BASE | {"beta_draws"},
  **{family: _METHODS for family in FAMILIES},
  "recipe": _RECIPE,
  "recipes": _RECIPE | {"recipe"},
  "kernels": _BASE,
  "models": _BASE | {"parallel"},
  "parallel": _BASE,
  "rollout": _BASE | {"parallel", "posterior"},
  "train": _RECIPE | {"recipe", "models", "parallel", "rollout"},
  "evaluate": _METHODS | {"parallel", "rollout"},
  # The host's side: order, files and figures, no method.
  "data": set(),
  "metrics": {"types"},
  "checkpoint": {"types", "metrics"},
  "pages": set(),
  "report": {"types", "metrics", "pages"},
}
PACKAGES = sorted(
  path.parent.name for path in FILES if path.name == "__init__.py"
)
PACKAGES.remove("jaxroll")


def part_of(path):
  """The part that a file of jaxroll belongs to."""
  return path.relative_to(ROOT / "jaxroll").parts[0].removesuffix(".py")


def imported(path):
  """Full names of everything that a file imports."""
  found = []
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.Import):
      found += [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f"{SHOWN(path)}: relative import"
      found += [f"{node.module}.{alias.name}" for alias in node.names]
  return found


def methods(family):
  """name -> function for each method of a family, aggregates included."""
  namespaces = [importlib.import_module(f"jaxroll.{family}")]
  if family == "objective":
    namespaces.append(namespaces[0].aggregate)
  return {n: getattr(space, n) for space in namespaces for n in space.__all__}


# --- imports


@pytest.mark.parametrize("path", FILES, ids=SHOWN)
def test_imports_point_one_way(path):
  part = part_of(path)
  if part == "__init__":
    return
  assert part in MAY_IMPORT, f"{part} is new: say here what it may import"
  names = [name.split(".") for name in imported(path)]
  used = {name[1] for name in names if name[0] == "jaxroll"} - {part}
  assert used <= MAY_IMPORT[part], f"{part} must not import {used}"
  for outside in ("experiments", "tests", "colabs"):
    assert outside not in {name[0] for name in names}


def test_the_parts_have_an_order():
  """The table above has no circle."""
  left = dict(MAY_IMPORT)
  while left:
    free = [part for part, needed in left.items() if not needed & set(left)]
    assert free, f"a circle among {sorted(left)}"
    for part in free:
      del left[part]


def test_every_file_belongs_to_a_part():
  parts = {part_of(path) for path in FILES} - {"__init__"}
  assert parts == set(MAY_IMPORT)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=SHOWN)
def test_experiments_use_what_is_public(path):
  names = [name.split(".") for name in imported(path)]
  for name in names:
    assert name[0] != "tests"
    if name[0] == "jaxroll":
      assert not any(part.startswith("_") for part in name), name


# --- exports


@pytest.mark.parametrize("package", PACKAGES)
def test_exports_are_sorted_and_there(package):
  module = importlib.import_module(f"jaxroll.{package}")
  assert list(module.__all__) == sorted(set(module.__all__))
  for name in module.__all__:
    assert hasattr(module, name), name


@pytest.mark.parametrize("family", [*FAMILIES, "recipes"])
def test_a_method_is_a_file_of_its_own(family):
  """`family.name` stands in `family/_name.py`, aggregates together."""
  folder = ROOT / "jaxroll" / family
  module = importlib.import_module(f"jaxroll.{family}")
  for name in module.__all__:
    file = "_host" if name == "host_task" else f"_{name}"
    assert (folder / f"{file}.py").exists(), name
    assert inspect.getmodule(getattr(module, name)).__name__ == (
      f"jaxroll.{family}.{file}"
    )


@pytest.mark.parametrize("family", [*FAMILIES, "recipes"])
def test_the_contract_lists_every_method(family):
  """Methods stand in the table of their family's docstring."""
  if family == "environments":
    return
  module = importlib.import_module(f"jaxroll.{family}")
  for name in module.__all__:
    assert re.search(rf"^\W*{name}\b", module.__doc__, re.MULTILINE), name


# --- tests


@pytest.mark.parametrize("family", [*FAMILIES, "recipes"])
def test_every_method_has_a_case_and_a_test(family):
  folder = ROOT / "tests" / family
  cases = importlib.import_module(f"tests.{family}.cases")
  rows = set()
  for table in vars(cases).values():
    rows |= set(table) if isinstance(table, dict) else set()
  tests = "".join(
    path.read_text(encoding="utf-8")
    for path in sorted(folder.glob("test_*.py"))
  )
  for name in methods(family):
    assert name in rows, (
      f"{family}.{name} has no row in tests/{family}/cases.py"
    )
    assert re.search(rf"\b{name}\b", tests), f"{family}.{name} has no test"


# --- arguments


def arguments(fn):
  """Parameters without a default."""
  parameters = inspect.signature(fn).parameters.values()
  return [p for p in parameters if p.default is p.empty]


def wired(family):
  """(name, function, hyper-parameters bound by its case) to be wired."""
  cases = importlib.import_module(f"tests.{family}.cases")
  tables = cases.CASES | getattr(cases, "AGGREGATES", {})
  for name, fn in methods(family).items():
    case = tables[name]
    fn = case.allocator.counts if family == "allocate" else fn
    yield name, fn, getattr(case, "required", ())


@pytest.mark.parametrize(
  "family",
  ["advantage", "allocate", "keep", "objective", "reward", "select", "trust"],
)
def test_arguments_are_names_that_the_recipe_knows(family):
  known = {*types.COLUMNS, *recipe.SPECIALS}
  for name, fn, bound in wired(family):
    asked = {p.name for p in arguments(fn)}
    assert asked <= known | set(bound), f"{family}.{name}: {asked - known}"
    assert set(bound) <= asked, f"{family}.{name}: {bound} have defaults"


def test_names_that_families_may_ask_for():
  # A row's round, and the running one while rows are allocated.
  assert set(types.COLUMNS) & set(recipe.SPECIALS) == {"round"}
  known = {*types.COLUMNS, *recipe.SPECIALS}
  for family, names in recipe.AVAILABLE.items():
    assert set(names) <= known, family
    assert len(set(names)) == len(names), family


def test_every_column_is_made_somewhere():
  made = {name for names in recipe.AVAILABLE.values() for name in names}
  assert set(types.COLUMNS) <= made


# --- words and sizes


def undocumented(path):
  """Public functions and classes of a file without a docstring."""
  tree = ast.parse(path.read_text(encoding="utf-8"))
  if ast.get_docstring(tree) is None and path.stat().st_size:
    yield "the module"
  bodies = [(tree.body, "")]
  kinds = (ast.FunctionDef, ast.ClassDef)
  while bodies:
    body, prefix = bodies.pop()
    for node in body:
      if isinstance(node, kinds) and not node.name.startswith("_"):
        if ast.get_docstring(node) is None and node.name != "main":
          yield prefix + node.name
        if isinstance(node, ast.ClassDef):
          bodies.append((node.body, f"{node.name}."))


@pytest.mark.parametrize("path", FILES + EXPERIMENTS, ids=SHOWN)
def test_public_names_have_docstrings(path):
  if path.name != "__init__.py":
    assert not list(undocumented(path))


@pytest.mark.parametrize("path", FILES + EXPERIMENTS, ids=SHOWN)
def test_files_are_short(path):
  assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("family", FAMILIES)
def test_methods_take_no_open_keywords(family):
  """They would hide what a method asks for."""
  for name, fn in methods(family).items():
    kinds = {p.kind for p in inspect.signature(fn).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds, name
    assert inspect.Parameter.VAR_POSITIONAL not in kinds, name
