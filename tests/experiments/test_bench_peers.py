"""bench, peers: turns are taken, and who cannot take part is named."""

import itertools
import json
import sys
import textwrap

import numpy as np
import pytest

from experiments.benchmarks import timing
from experiments.benchmarks.peers import client, packages

JOB = {"kind": "count", "arrays": {"length": np.array([3, 4])}}


@pytest.fixture
def worker(tmp_path):
  """() -> client.Worker around a small script that speaks the protocol."""
  script = tmp_path / "worker.py"
  script.write_text(
    textwrap.dedent(f"""
    import os, sys, time
    sys.path.insert(0, {str(client._HERE)!r})
    import numpy as np, protocol

    def count(job, clock):
      length = np.load(job["arrays"])["length"]
      print("a library says something on standard output")
      while clock.begin():
        time.sleep(0.01)
        clock.end(lambda: length.sum())

    def ended(job, clock):
      while True:
        if not clock.begin():
          raise protocol.Ended
        clock.end(lambda: 1)

    def wrong(job, clock):
      clock.begin()
      raise ValueError("no such model")

    def gone(job, clock):
      print("killed for memory", file=sys.stderr)
      os._exit(9)

    def slow(job, clock):
      clock.begin()
      time.sleep(60)

    jobs = dict(count=count, ended=ended, wrong=wrong, gone=gone, slow=slow)
    protocol.serve(jobs, {{"peer": "1.0"}})
    """),
    encoding="utf-8",
  )
  made = []

  def make(**options):
    command = [sys.executable, str(script)]
    made.append(client.Worker("trl", command, **options))
    return made[-1]

  yield make
  for one in made:
    one.close()


# --- a worker


def test_a_worker_times_job_after_job(worker):
  peer = worker()
  for kind, tokens in (("count", 7.0), ("ended", 1.0), ("count", 7.0)):
    peer.start(JOB | {"kind": kind})
    for _ in range(2):
      sample = peer.once()
      assert sample.tokens == tokens
      assert sample.seconds >= (0.01 if kind == "count" else 0)
    ended = peer.end()
    assert ended["versions"] == {"peer": "1.0"}
    assert ended["peak_memory_mb"] > 1


@pytest.mark.parametrize(
  ("kind", "message"),
  [
    ("wrong", "ValueError: no such model"),
    ("gone", "ended, or took more than 60 s.*killed for memory"),
    ("slow", "ended, or took more than 1 s"),
    ("unknown", "KeyError"),
  ],
)
def test_a_worker_that_fails_says_why_and_is_started_anew(
  worker, kind, message
):
  peer = worker(limit=60)
  with pytest.raises(timing.Failed, match=message):
    peer.start(JOB | {"kind": kind})
    peer._limit = 1
    peer.once()
  peer._limit = 60
  peer.start(JOB)
  assert peer.once().tokens == 7.0


# --- turns


class Scripted:
  """A peer whose calls take what they are told to."""

  def __init__(self, name, seconds, log, fails_at=None):
    self.name, self._log, self._fails_at = name, log, fails_at
    self._seconds = iter(seconds)
    self._calls = itertools.count()

  def start(self, job):
    self._log.append(f"{self.name} starts")

  def once(self):
    if next(self._calls) == self._fails_at:
      raise timing.Failed("out of memory")
    self._log.append(self.name)
    return timing.Sample(next(self._seconds), tokens=50.0)

  def end(self):
    self._log.append(f"{self.name} ends")
    return {"versions": {}}


def case(log, seconds, monkeypatch):
  """A case whose calls take given times of a clock of our own."""
  now = [0.0]
  monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
  taken = iter(seconds)

  def call():
    log.append("here")
    now[0] += next(taken)
    return 100

  return timing.Case(
    "case", call, tokens=float, flops=lambda result: 5e9, job={}
  )


def test_calls_alternate_and_ratios_are_by_round(monkeypatch):
  log = []
  tunix = Scripted("tunix", [99.0, 9.0, 1.0, 4.0, 2.0], log)
  trl = Scripted("trl", [99.0, 9.0, 3.0, 3.0, 3.0], log)
  made = case(log, [50.0, 7.0, 1.0, 2.0, 4.0], monkeypatch)
  row = timing.compare(made, "tiny", 3, (tunix, trl))
  assert log == [
    "tunix starts",
    "trl starts",
    *["here", "tunix", "trl"] * 5,
    "tunix ends",
    "trl ends",
  ]
  # The first compiles, the second warms up; then 1, 2 and 4 s for 100 tokens.
  assert (row.median_s, row.min_s, row.max_s) == (2.0, 1.0, 4.0)
  assert row.compile_s == 48.0
  assert (row.tokens, row.tokens_per_s) == (100.0, 50.0)
  assert row.flops_per_s == 2.5e9
  # They make 50 tokens: twice their seconds against ours, round by round:
  # tunix 2/1, 8/2, 4/4; TRL 6/1, 6/2, 6/4.
  assert row.ratio_tunix == 2.0
  assert (row.ratio_tunix_min, row.ratio_tunix_max) == (1.0, 4.0)
  assert row.ratio_trl == 3.0
  assert row.peers["trl"]["median_s"] == 3.0
  assert "2.00" in timing.table([row]) and "3.00" in timing.table([row])


@pytest.mark.parametrize("fails_at", [0, 3])
def test_a_peer_that_fails_has_no_ratio_and_a_reason(
  monkeypatch, capsys, fails_at
):
  log = []
  tunix = Scripted("tunix", [1.0] * 5, log)
  trl = Scripted("trl", [1.0] * 5, log, fails_at)
  made = case(log, [1.0] * 5, monkeypatch)
  row = timing.compare(made, "tiny", 3, (trl, tunix))
  assert row.ratio_trl is None and row.ratio_tunix == 2.0
  assert row.peers["trl"] == {"error": "out of memory"}
  assert "case: no trl: out of memory" in capsys.readouterr().err
  assert log.count("trl") == fails_at
  json.dumps(row._asdict())


# --- packages


def test_an_environment_is_used_again(monkeypatch, tmp_path):
  home = tmp_path / "bench" / "trl"
  home.mkdir(parents=True)
  text = "\n".join(packages.REQUIREMENTS["trl"]) + "\n"
  (home / "installed.txt").write_text(text, encoding="utf-8")
  monkeypatch.setenv("JAXROLL_CACHE", str(tmp_path))
  assert packages.python("trl") == home / "bin" / "python"


def test_without_a_network_a_peer_says_so(monkeypatch, tmp_path, capsys):
  # An environment whose pip is this one's: none is made, which takes long,
  # and without an index nothing can be put into it.
  place = tmp_path / "bench" / "trl" / "bin"
  place.mkdir(parents=True)
  (place / "pip").touch()
  (place / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
  (place / "python").chmod(0o755)
  monkeypatch.setitem(packages.REQUIREMENTS, "trl", ("trl==1.16.0",))
  monkeypatch.setenv("JAXROLL_CACHE", str(tmp_path))
  monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
  for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
    monkeypatch.delenv(name, raising=False)
  monkeypatch.setenv("PIP_NO_INDEX", "1")
  peer = client.Worker("trl")
  with pytest.raises(timing.Failed, match="trl cannot be installed.*network"):
    peer.start(JOB)
  peer.close()
  assert "trl: installing trl==1.16.0" in capsys.readouterr().out
