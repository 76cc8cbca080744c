"""Comparisons: cells that resume, paired starts, statistics, pages."""

import json
import math
import re

import jax.numpy as jnp
import numpy as np
import pytest

from experiments import build, claims, cli, compare
from experiments.comparison import analysis, cells, pages, problems
from experiments.configs import compare_arithmetic, compare_population
from jaxroll import evaluate, recipes, types
from tests.experiments import tiny

POPULATION = {
  "task.num_prompts": 48,
  "task.num_eval": 16,
  "prompts": 8,
  "rollouts": 32,
  "slots": 32,
  "micro_rows": 32,
  "budget": 200,
  "eval_every": 2,
}
ARITHMETIC = {
  "task.grades": ("+:1:2",),
  "task.per_grade": 32,
  "task.eval_per_grade": 16,
  "model.embed": 32,
  "model.layers": 1,
  "model.heads": 2,
  "model.kv_heads": 2,
  "model.head_dim": 16,
  "model.ffn": 64,
  # So that a policy of this size solves some of its prompts sometimes.
  "warm_start.steps": 150,
  "warm_start.rows": 32,
  "warm_start.learning_rate": 5e-3,
  "prompts": 4,
  "rollouts": 32,
  "slots": 16,
  "micro_rows": 32,
  "budget": 300,
  "eval_every": 2,
  "eval_prompts": 8,
  "eval_k": 2,
}
NAMES = ["vade"]


def config(of=compare_population, fields=POPULATION, **changes):
  made = of.get_config()
  changes = {name.replace("__", "."): x for name, x in changes.items()}
  for name, value in (fields | changes).items():
    *sections, field = name.split(".")
    section = made
    for place in sections:
      section = section[place]
    section[field] = value
  return made


def run(workdir, made=None, **options):
  options = {"names": NAMES, "seeds": 3} | options
  return compare.run(made or config(), str(workdir), **options)


@pytest.fixture(scope="module")
def population(tmp_path_factory):
  """A finished comparison: its directory, records and cells."""
  workdir = tmp_path_factory.mktemp("population") / "run"
  records = run(workdir)
  files = sorted((workdir / "cells").glob("*.json"))
  return workdir, records, [json.loads(file.read_text()) for file in files]


# --- cells


def test_one_record_a_method_and_one_cell_a_seed(population):
  workdir, records, some = population
  assert json.loads((workdir / "results.json").read_text()) == records
  assert [r["method"] for r in records] == ["uniform", *NAMES]
  found = [(cell["recipe"], cell["seed"]) for cell in some]
  assert found == [(n, s) for n in ("uniform", *NAMES) for s in range(3)]
  for r in records:
    assert {"difference", "low", "high", "verdict"} <= set(r)
    assert r["seeds"] == 3 and r["budget_unit"] == "rollouts"
  for r in records[1:]:
    assert r["low"] < r["difference"] < r["high"]
    assert r["minimum_detectable"] > 0
    assert r["claim"] == claims.CLAIMS[r["method"]].text


def test_differences_are_of_the_curves_at_the_budget(population):
  _, records, some = population
  at = {
    (cell["recipe"], cell["seed"]): np.interp(
      200, cell["curve"]["rollouts"], cell["curve"]["solve_rate"]
    )
    for cell in some
  }
  for r in records[1:]:
    differences = [at[r["method"], s] - at["uniform", s] for s in range(3)]
    np.testing.assert_allclose(r["difference"], np.mean(differences))


def test_a_cell_spends_the_budget_and_no_step_more(population):
  _, _, some = population
  for cell in some:
    cost = cell["curve"]["rollouts"]
    assert cost[0] == 0 and cost[-2] < 200 <= cost[-1]
    # The last step that is counted is the one that reached the budget.
    assert 200 <= cell["rollouts"] < 200 + 32
    assert cell["tokens"] == cell["rollouts"]  # a response is one token
    if cell["recipe"] == "uniform":
      assert cell["steps"] == math.ceil(200 / 32)


@pytest.mark.parametrize("step_size, way", [("matched", 0.25), ("fixed", 1.0)])
def test_a_rollout_moves_every_method_by_the_same_length(
  step_size, way, tmp_path
):
  """Matched, a step that spends 8 of its 32 rows goes a quarter of the way."""
  problem = problems.make(config(), tmp_path, step_size=step_size)

  def state(w):
    params = {"w": jnp.array(w, jnp.float32)}
    learner = types.Learner(params, ())
    return types.TrainState({"policy": learner}, {}, None, {}, None, None)

  known = dict.fromkeys(cells._COUNTED, 0.0) | {"rollouts": jnp.int32(8)}
  after, metrics = cells._counted(
    problem, state([1.0, 2.0]), state([5.0, 5.0]), known
  )
  np.testing.assert_allclose(
    after.learners["policy"].params["w"], [1 + 4 * way, 2 + 3 * way]
  )
  assert float(metrics["update_norm"]) == pytest.approx(5 * way)


def test_a_method_without_prompts_stays_where_it_is(tmp_path, monkeypatch):
  """It selects nothing from its third step on."""

  def select(stats, pool, *, num, step, key):
    del stats, key
    return jnp.where(step < 2, pool[:num], -1)

  def short(sizes):
    return recipes.uniform(sizes)._replace(name="short", select=(select,))

  monkeypatch.setattr(recipes, "short", short, raising=False)
  monkeypatch.setattr(recipes, "__all__", [*recipes.__all__, "short"])
  run(tmp_path / "run", names=["short"], seeds=2)
  (file,) = (tmp_path / "run" / "cells").glob("short-*-0.json")
  cell = json.loads(file.read_text())
  assert cell["ended"] == 64 and cell["curve"]["rollouts"][-1] == 200
  assert cell["curve"]["solve_rate"][-1] == cell["curve"]["solve_rate"][-2]
  records = json.loads((tmp_path / "run" / "results.json").read_text())
  assert [r["ended"] for r in records] == [0, 2]
  assert "out of prompts on 2 seeds" in (
    tmp_path / "run" / "results.html"
  ).read_text(encoding="utf-8")


def test_methods_that_ran_before_stay_in_the_results(population):
  workdir, records, _ = population
  again = run(workdir, names=["uniform"])
  assert [r["method"] for r in again] == ["uniform", *NAMES]
  assert again[1]["difference"] == records[1]["difference"]
  fewer = run(workdir, names=["uniform"], seeds=2)
  assert [r["seeds"] for r in fewer] == [2, 2]
  run(workdir)


def test_seeds_pair_the_methods_and_differ_from_each_other(population):
  _, _, some = population
  starts = {}
  for cell in some:
    starts.setdefault(cell["seed"], set()).add(cell["curve"]["solve_rate"][0])
  assert all(len(x) == 1 for x in starts.values())
  assert len(set.union(*starts.values())) == 3


def test_one_program_serves_all_seeds_and_is_the_seed_s_own(tmp_path):
  """Another seed's population is an argument, not a constant."""
  made = config()
  problem = problems.make(made, tmp_path, step_size="matched")
  rules = recipes.uniform(problem.sizes)

  def cell(arm, seed):
    found = cells.run(
      arm, seed, unit="rollouts", budget=200, progress=lambda share: None
    )
    return {k: x for k, x in found.items() if "seconds" not in k}

  shared = cells.arm(made, rules, "uniform", 0.1, problem)
  first = [cell(shared, seed) for seed in (0, 1)]
  assert len(shared.programs) == 1
  alone = cells.arm(made, rules, "uniform", 0.1, problem)
  assert cell(alone, 1) == first[1] != first[0]


def test_matched_updates_have_the_norm(population):
  _, records, _ = population
  for r in records:
    # A step whose groups are all tied moves nothing.
    assert 0.02 < r["update_norm"] < 0.03 * (1 + 1e-4)


def test_finished_cells_are_not_run_again(population, monkeypatch):
  workdir, records, _ = population

  def never(*_, **__):
    raise AssertionError("ran a cell again")

  monkeypatch.setattr(cells, "run", never)
  assert run(workdir) == records
  # What is asked of the cells may change.
  (record,) = run(workdir, config(metric="held_out"), names=["vade"])[1:]
  assert record["difference"] != records[1]["difference"]
  run(workdir)  # as it was


def test_a_lost_cell_comes_back_the_same(population):
  workdir, records, some = population
  (file,) = (workdir / "cells").glob("vade-*-1.json")
  (before,) = (x for x in some if (x["recipe"], x["seed"]) == ("vade", 1))
  file.unlink()
  again = run(workdir)
  after = json.loads(file.read_text())
  # To the bit, time apart.
  times = {"seconds": 0, "compile_seconds": 0}
  assert after | times == before | times
  assert [r | times for r in again] == [r | times for r in records]


@pytest.mark.parametrize(
  "options, made, message",
  [
    ({}, {"update_norm": 0.1}, "update_norm"),
    ({"unit": "tokens"}, {}, "budget_unit"),
    ({"step_size": "fixed"}, {}, "step_size"),
  ],
)
def test_another_comparison_needs_another_workdir(
  population, options, made, message
):
  workdir, *_ = population
  with pytest.raises(cli.Refused, match=message):
    run(workdir, config(**made), **options)


def test_a_cell_of_other_settings_is_refused(tmp_path):
  where = cells.path(tmp_path, "vade", 3, 0.1)
  assert cells.load(where, "one") is None
  cells.save(where, {"fingerprint": "one"})
  assert cells.load(where, "one") == {"fingerprint": "one"}
  with pytest.raises(ValueError, match=r"vade-0\.1-3.*one, not two"):
    cells.load(where, "two")


@pytest.mark.parametrize(
  "options, changes, message",
  [
    (
      {"names": ["nosuch", "vigor", "other"]},
      {},
      r"2 cannot run:\nnosuch: no such recipe.*'vade'.*\nother: no such",
    ),
    (
      {"names": ["vigor", "vade", "pilot_commit"]},
      {"rollouts": 9},
      r"vigor: vigor needs .*\n.*pilot_commit: ",
    ),
    ({"baseline": "nosuch"}, {}, "nosuch: no such recipe"),
    ({"seeds": 1}, {}, "seeds=1: an interval needs at least 2"),
    ({}, {"metric": "nosuch"}, "metric='nosuch': must be one of .*held_out"),
    ({}, {"margin": 0.0}, "margin=0.0: must be finite and greater"),
    ({}, {"budget": 0}, "budget=0: must be finite and greater"),
    ({}, {"tuning_rates": ()}, r"tuning_rates=\(\)"),
    ({}, {"tuning_seeds": 0}, "tuning_seeds=0 must be at least 1"),
    ({}, {"target_share": 2.0}, r"target_share=2\.0: must be in"),
    ({}, {"power": 1.0}, r"power=1\.0: must be in"),
    ({}, {"prompts": 49, "rollouts": 98}, "prompts=49 .*only 48"),
    ({}, {"slots": 0}, "slots=0 must be at least 1"),
  ],
)
def test_refused_before_anything_is_written(
  tmp_path, options, changes, message
):
  workdir = tmp_path / "run"
  with pytest.raises(cli.Refused, match=message):
    run(workdir, config(**changes), **options)
  assert not workdir.exists()


def test_a_directory_of_something_else_is_left_alone(tmp_path):
  (tmp_path / "thesis.tex").write_text("x")
  with pytest.raises(cli.Refused, match="not empty and holds no comparison"):
    run(tmp_path)


def test_a_broken_method_is_shown_and_the_others_go_on(tmp_path, monkeypatch):
  whole = cells.run

  def broken(arm, *args, **options):
    if arm.name == "vigor":
      raise FloatingPointError("no such luck")
    return whole(arm, *args, **options)

  monkeypatch.setattr(cells, "run", broken)
  records = run(tmp_path, names=["vigor", "vade"], seeds=2)
  verdicts = {r["method"]: r["verdict"] for r in records}
  assert verdicts["vigor"] == "failed" and verdicts["vade"] != "failed"
  assert records[-1]["error"] == "FloatingPointError: no such luck"
  assert "no such luck" in (tmp_path / "results.html").read_text()
  assert "no such luck" in pages.section(records)


def test_rates_are_tuned_on_other_seeds(tmp_path):
  made = config(tuning_rates=(1.0, 1e-3), tuning_seeds=1)
  records = run(tmp_path, made, names=[], seeds=2, step_size="tuned")
  # A rate of nearly nothing learns nothing.
  assert records[0]["learning_rate"] == 0.1
  tried = sorted((tmp_path / "tuning").glob("*.json"))
  assert [f.name for f in tried] == [
    "uniform-0.0001-1000000.json",
    "uniform-0.1-1000000.json",
  ]
  assert len(list((tmp_path / "cells").glob("*.json"))) == 2


def test_a_transformer_at_a_budget_of_tokens(tmp_path, monkeypatch):
  """The warm start is done once a seed and shared."""
  monkeypatch.setattr(build, "mesh", lambda _: None)
  made = config(compare_arithmetic, ARITHMETIC)
  options = {"names": ["pilot_commit"], "seeds": 2, "unit": "tokens"}
  records = run(tmp_path, made, step_size="fixed", **options)
  assert [r["metric"] for r in records] == ["pass@1"] * 2
  starts = sorted(f.name for f in (tmp_path / "starts").iterdir())
  assert starts == ["0.msgpack", "1.msgpack"]
  files = (tmp_path / "cells").glob("*.json")
  some = [json.loads(file.read_text()) for file in files]
  for cell in some:
    assert cell["curve"]["tokens"][-1] >= 300 > cell["curve"]["tokens"][-2]
    assert cell["update_norm"] > 0
  assert pages.FIXED in (tmp_path / "results.html").read_text()
  next((tmp_path / "cells").glob("pilot_commit-*-1.json")).unlink()
  again = run(tmp_path, made, step_size="fixed", **options)
  for r, s in zip(records, again):
    assert r | {"seconds": 0} == s | {"seconds": 0}


# --- the binary


def test_the_command_line(tmp_path):
  flags = [f"--config.{k}={v}" for k, v in POPULATION.items()]
  process = tiny.finished(
    tmp_path,
    "--task=population",
    "--recipes=vade",
    "--seeds=2",
    *flags,
    module="experiments.compare",
    file=None,
  )
  lines = process.stderr.splitlines()
  assert lines[-1] == f"results: {tmp_path / 'results.html'}"
  assert any(re.match(r"vade +[+-]0\.\d{4} \[", line) for line in lines)
  assert any(re.match(r"step 400/400  100%  0:00:00 left", x) for x in lines)
  records = json.loads((tmp_path / "results.json").read_text())
  assert [r["task"] for r in records] == ["population"] * 2


@pytest.mark.parametrize(
  "argv, file",
  [
    (["x"], "compare_population.py"),
    (["x", "--task=arithmetic", "--seeds=2"], "compare_arithmetic.py"),
    (["x", "--task", "skills"], "compare_skills.py"),
    (
      ["x", "--task=experiments/configs/compare_skills.py"],
      "experiments/configs/compare_skills.py",
    ),
  ],
)
def test_a_task_is_a_config(argv, file):
  made = compare._with_config(argv)
  assert made[1].startswith("--config=") and made[1].endswith(file)
  assert made[2:] == argv[1:]


def test_a_config_that_is_given_stays():
  argv = ["x", "--config=mine.py", "--config.budget=3"]
  assert compare._with_config(argv) == argv


def test_an_unknown_task_lists_the_known():
  with pytest.raises(cli.Refused, match="task='chess'.*'arithmetic'.*'popul"):
    compare.config_file("chess")


# --- what cells say


def question(**changes):
  made = analysis.Question(
    task="toy",
    metric="solve_rate",
    unit="rollouts",
    budget=100,
    step_size="matched",
    margin=0.02,
    power=0.8,
    target=0.5,
    target_share=0.9,
  )
  return made._replace(**changes)


def cell(*values, learning_rate=0.1):
  """A curve with evaluations after 0, 50 and 100 rollouts."""
  zeros = dict.fromkeys(analysis._MEANS, 1.0)
  curve = {"rollouts": [0, 50, 100], "solve_rate": list(values)}
  own = {"curve": curve, "learning_rate": learning_rate, "ended": None}
  return zeros | own


def found(**methods):
  """Records by method, of last values 0.60, 0.62, 0.61, 0.59 for uniform."""
  base = [cell(0.2, 0.4, x) for x in (0.60, 0.62, 0.61, 0.59)]
  some = {"uniform": base} | methods
  return {r["method"]: r for r in analysis.records(question(), some, "uniform")}


def shifted(by, noise=(0.001, -0.001, 0.002, -0.002)):
  ends = np.add((0.60, 0.62, 0.61, 0.59), by) + noise
  return [cell(0.2, 0.4, float(x)) for x in ends]


def test_verdicts():
  noisy = (0.2, -0.2, 0.1, -0.1)
  some = found(
    a=shifted(0.1), b=shifted(-0.1), c=shifted(0.005), d=shifted(0, noisy)
  )
  words = [some[name]["verdict"] for name in "abcd"]
  assert words == ["better", "worse", "equivalent", "undecided"]
  assert some["uniform"]["verdict"] == "baseline"
  np.testing.assert_allclose(some["a"]["difference"], 0.1)


@pytest.mark.parametrize(
  "difference, p_different, p_same, word",
  [
    (0.1, 0.04, 0.9, "better"),
    (-0.1, 0.04, 0.9, "worse"),
    (0.1, 0.05, 0.9, "undecided"),
    # It is there, and too small to matter.
    (0.01, 0.001, 0.01, "equivalent"),
    (0.0, 1.0, 0.049, "equivalent"),
  ],
)
def test_verdict(difference, p_different, p_same, word):
  assert analysis.verdict(difference, p_different, p_same) == word


def test_holm_is_over_all_methods():
  alone = found(a=shifted(0.1))["a"]
  among = found(a=shifted(0.1), b=shifted(0.0), c=shifted(0.0))["a"]
  assert alone["p_holm"] == alone["p_value"] == among["p_value"]
  np.testing.assert_allclose(among["p_holm"], 3 * among["p_value"])
  assert among["minimum_detectable"] > alone["minimum_detectable"]


def test_a_baseline_that_learned_nothing_is_said_to():
  flat = {name: [cell(0.2, 0.2, 0.2)] * 2 for name in ("uniform", "a")}
  records = analysis.records(question(), flat, "uniform")
  assert "tell no methods apart" in pages.section(records)
  some = [*found(a=shifted(0.1)).values()]
  assert "tell no methods apart" not in pages.section(some)


def test_seeds_that_never_reach_the_target_are_counted():
  """Uniform crosses 0.5 at 50 + 50 * 0.1 / (end - 0.4)."""
  at = [75.0, 50 + 5 / 0.22, 50 + 5 / 0.21, 50 + 5 / 0.19]
  some = found(a=[cell(0, 0.5, 1), cell(0, 0, 0.1), *shifted(0, (0,) * 4)[2:]])
  record = some["a"]
  assert (record["reached"], some["uniform"]["reached"]) == (3, 4)
  assert (record["censored"], record["censored_baseline"]) == (1, 0)
  assert record["to_target_pairs"] == 3
  ratios = evaluate.paired(np.log([50, *at[2:]]), np.log([at[0], *at[2:]]))
  np.testing.assert_allclose(
    [record[f"to_target_{x}"] for x in ("ratio", "low", "high")],
    np.exp([ratios.difference, ratios.low, ratios.high]),
    rtol=1e-6,
  )
  assert "1 seeds censored" in pages.section([*some.values()])


def test_the_target_is_a_share_of_the_baseline_s_gain():
  made = question(target=None)
  base = {"uniform": [cell(0.2, 0.4, 0.6)] * 2}
  (record,) = analysis.records(made, base, "uniform")
  np.testing.assert_allclose(record["target"], 0.2 + 0.9 * 0.4)


def test_a_method_that_differs_on_no_seed_is_no_test():
  """It is told from a measured null, and does not count in Holm's family."""
  same = [cell(0.2, 0.4, x) for x in (0.60, 0.62, 0.61, 0.59)]
  alone = found(a=shifted(0.01))["a"]
  some = found(dead=same, a=shifted(0.01))
  assert some["dead"]["verdict"] == "identical"
  assert some["a"]["p_holm"] == alone["p_holm"]
  assert some["a"]["minimum_detectable"] == alone["minimum_detectable"]
  assert "dead" in pages.section([*some.values()])


def test_few_seeds_and_a_wide_margin_are_said():
  some = [*found(a=shifted(0.1)).values()]
  assert "4 seeds: the spread" in pages.section(some)
  assert "the margin is" not in pages.section(some)
  wide = [record | {"margin": 0.2} for record in some]
  assert "the margin is 49% of what uniform gained" in pages.section(wide)


def test_diverged_seeds_are_left_out_and_counted():
  some = shifted(0.1)
  some[0] = cell(0.2, math.nan, math.nan)
  record = found(a=some)["a"]
  assert record["omitted"] == 1
  np.testing.assert_allclose(record["difference"], 0.1 - 0.001 / 3)
  json.dumps(record, allow_nan=False)


# --- pages


def test_the_page_stands_alone(population):
  workdir, records, _ = population
  page = (workdir / "results.html").read_text()
  assert page.count("data:image/png;base64,") == 2
  assert "http" not in page.replace("http-equiv", "")
  for r in records:
    assert f"<td><div>{r['method']}</div></td>" in page
    assert r["verdict"] in page


def test_the_markdown_page_keeps_every_method(population, tmp_path):
  workdir, records, _ = population
  path = pages.write_page(tmp_path / "docs" / "results.md", [workdir, workdir])
  text = path.read_text()
  assert text.startswith("# Results\n")
  assert text.count("## logistic: solve_rate, matched step size") == 2
  for r in records:
    (row, _) = [
      x for x in text.splitlines() if x.startswith(f"| {r['method']}")
    ]
    assert r["claim"] in row and r["verdict"] in row
    assert row.count("|") == len(pages._HEAD)
  with pytest.raises(ValueError, match="results.json does not exist"):
    pages.write_page(tmp_path / "x.md", [tmp_path])


def test_claims_are_of_recipes():
  assert set(claims.CLAIMS) <= set(recipes.__all__)
  for name, claim in claims.CLAIMS.items():
    assert re.fullmatch(r"\d{4}\.\d{5}", claim.paper), name
    assert claim.text and "\n" not in claim.text and "|" not in claim.text
