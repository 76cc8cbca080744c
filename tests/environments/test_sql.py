"""SQL queries against a reference: right, wrong, hostile."""

import sqlite3
import time

import pytest

from jaxroll.environments import answers, sql, workers

SCRIPT = """
CREATE TABLE t(name TEXT, x INTEGER, y REAL);
INSERT INTO t VALUES ('a', 1, 0.1), ('b', 2, 0.2), ('c', NULL, 0.3);
"""
SCORER = sql.scorer(seconds=1.0, rows=100)
COUNT = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) "


def score(completion, reference, **fields):
  return SCORER("", completion, sql.Query(reference, script=SCRIPT, **fields))


@pytest.mark.parametrize(
  "completion, reference, right",
  [
    ("SELECT name FROM t", "SELECT name FROM t", 1),
    ("SELECT name FROM t ORDER BY x DESC;", "SELECT name FROM t", 1),
    ("```sql\nSELECT name FROM t\n```", "SELECT name FROM t", 1),
    ("SELECT name AS other FROM t", "SELECT name FROM t", 1),
    ("SELECT name FROM t WHERE x", "SELECT name FROM t", 0),
    ("SELECT name FROM t UNION ALL SELECT 'a'", "SELECT name FROM t", 0),
    ("SELECT x, name FROM t", "SELECT name, x FROM t", 0),
    ("SELECT x FROM t ORDER BY x", "SELECT x FROM t ORDER BY x", 1),
    ("SELECT x FROM t ORDER BY x DESC", "SELECT x FROM t ORDER BY x", 0),
    ("SELECT sum(y) FROM t", "SELECT 0.6", 1),  # 0.6000000000000001
    ("SELECT 2.0", "SELECT 2", 1),
    ("SELECT '2'", "SELECT 2", 0),
    ("SELECT NULL", "SELECT x FROM t WHERE name = 'c'", 1),
    (
      COUNT + "SELECT i FROM c LIMIT 3",
      "SELECT 1 UNION SELECT 2 UNION SELECT 3",
      1,
    ),
    ("SELECT 1 WHERE 0", "SELECT name FROM t WHERE x = 9", 1),
    ("", "SELECT name FROM t WHERE x = 9", 0),
    ("-- nothing", "SELECT name FROM t WHERE x = 9", 0),
    ("SELECT nothing FROM t", "SELECT name FROM t", 0),
    ("I do not know", "SELECT name FROM t", 0),
    ("\ud800", "SELECT name FROM t", 0),
    ("SELECT 1\x00", "SELECT 1", 0),
  ],
)
def test_queries(completion, reference, right):
  assert score(completion, reference) == right


def test_order_may_be_stated():
  descending = "SELECT x FROM t ORDER BY x DESC"
  assert score(descending, "SELECT x FROM t ORDER BY x", ordered=False) == 1
  assert score(descending, "SELECT x FROM t", ordered=True) == 0


HOSTILE = [
  "DROP TABLE t",
  "DELETE FROM t",
  "INSERT INTO t VALUES ('d', 4, 4)",
  "UPDATE t SET x = 0",
  "CREATE TABLE u(x)",
  "CREATE TEMP TABLE u(x)",
  "ATTACH '{folder}/new.db' AS other",
  "VACUUM INTO '{folder}/new.db'",
  "PRAGMA writable_schema = 1",
  "SELECT * FROM pragma_database_list",
  "BEGIN",
  "SELECT load_extension('x')",
  "SELECT writefile('{folder}/new.db', 'x')",
  "SELECT x FROM t; DROP TABLE t",
  "SELECT zeroblob(1000000000)",
  COUNT + "SELECT max(i) FROM c",
  COUNT + "SELECT i FROM c",
  "SELECT " + "(" * 50_000,
  "SELECT x FROM t WHERE name LIKE '" + "%a" * 10_000 + "'",
  "SELECT count(*) FROM t" + ", t" * 60,
]


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: query[:40])
def test_hostile_queries_are_wrong_and_change_nothing(query, tmp_path):
  path = tmp_path / "made.db"
  with sqlite3.connect(path) as database:
    database.executescript(SCRIPT)
  database.close()
  before = path.read_bytes()
  start = time.monotonic()
  answer = sql.Query("SELECT x FROM t", path=str(path))
  assert SCORER("", query.format(folder=tmp_path), answer) == 0.0
  assert time.monotonic() - start < 3
  assert path.read_bytes() == before
  assert [file.name for file in tmp_path.iterdir()] == ["made.db"]


def test_an_error_of_the_reference_is_none_of_the_policy():
  with pytest.raises(sqlite3.Error):
    score("SELECT 1", "SELECT nothing FROM t")
  with pytest.raises(ValueError, match="more than 100 rows"):
    score("SELECT 1", COUNT + "SELECT i FROM c LIMIT 101")
  with pytest.raises(ValueError, match="give one of them"):
    SCORER("", "SELECT 1", sql.Query("SELECT 1"))
  with pytest.raises(sqlite3.Error):
    SCORER("", "SELECT 1", sql.Query("SELECT 1", path="/no/such/file"))


@pytest.mark.parametrize(
  "query, ordered",
  [
    ("select x from t order\n by x", True),
    ("SELECT 'ORDER BY x' FROM t", False),
    ('SELECT "order by" FROM t', False),
    ("SELECT x FROM (SELECT x FROM t ORDER BY x) u", False),
    ("SELECT x FROM t -- ORDER BY x", False),
    ("SELECT x FROM t /* ( */ ORDER BY x", True),
    ("SELECT row_number() OVER (ORDER BY x) FROM t", False),
    ("SELECT x, border by FROM t", False),
  ],
)
def test_is_ordered(query, ordered):
  assert sql.is_ordered(query) == ordered


@pytest.mark.parametrize(
  "arguments", [{"seconds": 0}, {"seconds": float("nan")}, {"rows": 0}]
)
def test_bad_limits(arguments):
  (name, _), *_ = arguments.items()
  with pytest.raises(ValueError, match=f"{name}="):
    sql.scorer(**arguments)


def test_in_workers():
  assert SCORER.needs_workers and not answers.scorer("exact").needs_workers
  with pytest.raises(ValueError, match="time_limit=2.0 <= 2.0"):
    workers.Pool(SCORER, time_limit=2.0)
  answer = {"reference": "SELECT max(x) FROM t", "script": SCRIPT}
  # One step of SQLite's machine, in which it does not look at the clock.
  endless = "SELECT " + "printf('%.*c', 2000000000, 'x') || " * 9 + "''"
  with workers.Pool(SCORER, workers=1, time_limit=3.0) as pool:
    assert pool.score([("", endless, answer)]) == [None]
    scores = pool.score(
      [("", text, answer) for text in ("SELECT 2", "SELECT 3", HOSTILE[-1])]
      + [("", "SELECT 1", {"reference": "SELECT", "script": SCRIPT})]
    )
  assert scores == [1.0, 0.0, 0.0, None]
