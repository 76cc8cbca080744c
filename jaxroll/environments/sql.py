"""Does a policy's SQL query give the rows that the reference gives?

Both run on the same SQLite database, which neither can change: a file is
opened read-only, a script fills a fresh one in memory, and an authorizer lets
a query select and nothing else (no write, ATTACH, PRAGMA or transaction). Rows
are compared as bags, as in Zhong et al. 2017 (1709.00103) and Yu et al. 2018
(Spider, 1809.08887), and in order only where the reference orders them.

A query has a time limit and a limit of rows. It is hostile input all the
same: verifiers run in worker processes, whose memory is limited too, and which
end what SQLite does not interrupt (one long call of a function).
"""

import collections
import contextlib
import math
import pathlib
import re
import sqlite3
import time
from typing import Any, NamedTuple

_FENCED = re.compile(r"```[ \t]*(?:sql(?:ite)?[ \t]*)?\n(.*?)```", re.DOTALL)
# What hides or nests: strings, quoted names, comments, parentheses.
_TOKENS = re.compile(
  r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*"
  r"|/\*.*?\*/|\(|\)|\border\s+by\b",
  re.DOTALL | re.IGNORECASE,
)
_ALLOWED = {
  sqlite3.SQLITE_SELECT,
  sqlite3.SQLITE_READ,
  sqlite3.SQLITE_FUNCTION,
  sqlite3.SQLITE_RECURSIVE,
}
_FORBIDDEN = {"edit", "fts3_tokenizer", "load_extension", "readfile"}
_FORBIDDEN |= {"writefile"}
_SIZES = {
  sqlite3.SQLITE_LIMIT_LENGTH: 10**6,
  sqlite3.SQLITE_LIMIT_SQL_LENGTH: 10**5,
  sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
  sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
  sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
  sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
_STEPS = 1000  # of SQLite's machine between two looks at the clock
_DIGITS = 9  # significant ones in which floats are compared


class Query(NamedTuple):
  """The answer of a prompt: what a right query gives.

  Attributes:
    reference: a right query.
    path: a database file; it is opened read-only.
    script: statements that make the database, trusted; instead of a path.
    ordered: whether rows are compared in order; None for: where the reference
      has an ORDER BY outside parentheses.
  """

  reference: str
  path: str | None = None
  script: str | None = None
  ordered: bool | None = None


class QueryScorer(NamedTuple):
  """A scorer of queries for `host_task` or `workers.Pool`; can be pickled."""

  seconds_each: float
  rows: int
  needs_workers: bool = True

  @property
  def seconds(self) -> float:
    """The longest that an answer takes; a pool's time limit is longer."""
    return 2 * self.seconds_each

  def __call__(self, prompt: str, completion: str, answer: Any) -> float:
    """1 if the completion's query gives the reference's rows."""
    del prompt
    wanted = Query(**answer) if isinstance(answer, dict) else Query(*answer)
    with contextlib.closing(connect(wanted)) as database:
      right = select(database, wanted.reference, self.seconds_each, self.rows)
      # Surrogates, which a policy may write, are no text to SQLite.
      try:
        given = select(
          database, statement(completion), self.seconds_each, self.rows
        )
      except (sqlite3.Error, sqlite3.Warning, UnicodeError, ValueError):
        return 0.0
    ordered = wanted.ordered
    if ordered is None:
      ordered = is_ordered(wanted.reference)
    return float(same(given, right, ordered=ordered))


def scorer(*, seconds: float = 2.0, rows: int = 10_000) -> QueryScorer:
  """A scorer of SQLite queries; a prompt's answer is a `Query`.

  Its fields may also come as a dict or a sequence, as from a JSON file.

  Args:
    seconds: most that a query may run.
    rows: most rows that a query may give.

  Returns:
    QueryScorer: 1.0 for the reference's rows, else 0.0; a query that fails, is
    late or gives too many rows is wrong. A reference that does is an error.

  Raises:
    ValueError: for limits out of range.

  Example:
    >>> check = scorer()
    >>> made = "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2);"
    >>> answer = Query("SELECT x FROM t", script=made)
    >>> check("", "SELECT x FROM t ORDER BY x DESC", answer)
    1.0
    >>> check("", "DROP TABLE t", answer)
    0.0
  """
  if not (math.isfinite(seconds) and seconds > 0):
    raise ValueError(f"seconds={seconds}: must be finite and > 0")
  if rows < 1:
    raise ValueError(f"rows={rows}: must be >= 1")
  return QueryScorer(seconds, rows)


def connect(query: Query) -> sqlite3.Connection:
  """The query's database; what runs on it from here on can only select.

  Raises:
    ValueError: unless there is one of path and script.
    sqlite3.Error: for a file that is no database, or a wrong script.
  """
  if (query.path is None) == (query.script is None):
    raise ValueError(
      f"path={query.path!r}, script={query.script!r}: give one of them"
    )
  if query.path is None:
    database = sqlite3.connect(":memory:")
    database.executescript(query.script)
  else:
    place = pathlib.Path(query.path).resolve().as_uri()
    database = sqlite3.connect(f"{place}?mode=ro", uri=True)
  for limit, value in _SIZES.items():
    database.setlimit(limit, value)
  database.set_authorizer(_authorize)
  return database


def select(
  database: sqlite3.Connection, text: str, seconds: float, most: int
) -> list[tuple]:
  """The rows of a query.

  Raises:
    sqlite3.Error: for a wrong, forbidden or late query.
    ValueError: for more than `most` rows, or text without a statement.
  """
  end = time.monotonic() + seconds
  database.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
  cursor = database.execute(text)
  if cursor.description is None:
    raise ValueError("no query: it must select something")
  rows = cursor.fetchmany(most + 1)
  cursor.close()
  if len(rows) > most:
    raise ValueError(f"more than {most} rows: raise rows, or add a LIMIT")
  return rows


def statement(completion: str) -> str:
  """The query of a completion: its last fenced block, else all of it.

  Example:
    >>> statement("So:\\n```sql\\nSELECT 1;\\n```")
    'SELECT 1;\\n'
  """
  blocks = _FENCED.findall(completion)
  return blocks[-1] if blocks else completion


def is_ordered(text: str) -> bool:
  """Whether a query has an ORDER BY outside parentheses.

  Example:
    >>> is_ordered("SELECT x FROM (SELECT x FROM t ORDER BY x)")
    False
    >>> is_ordered("SELECT 'a)' FROM t order  by 1 -- (")
    True
  """
  depth = 0
  for found in _TOKENS.findall(text):
    depth += (found == "(") - (found == ")")
    if found[:5].lower() == "order" and not depth:
      return True
  return False


def same(given: list[tuple], right: list[tuple], *, ordered: bool) -> bool:
  """Whether two results are equal: as lists, or as bags of rows.

  Floats are compared in 9 significant digits; 1 equals 1.0, and NULL itself.

  Example:
    >>> same([(1, "a"), (2, "b")], [(2.0, "b"), (1, "a")], ordered=False)
    True
  """
  given, right = ([tuple(map(_key, row)) for row in x] for x in (given, right))
  if ordered:
    return given == right
  return collections.Counter(given) == collections.Counter(right)


def _key(value):
  if isinstance(value, float) and math.isfinite(value):
    return float(f"{value:.{_DIGITS - 1}e}")
  return value


def _authorize(action, first, second, *_):
  if action not in _ALLOWED:
    return sqlite3.SQLITE_DENY
  if action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _FORBIDDEN:
    return sqlite3.SQLITE_DENY
  return sqlite3.SQLITE_OK
