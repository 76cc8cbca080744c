"""How fast is the library on this machine, and beside other frameworks?

  python -m experiments.bench --suite=rollout,update,step --size=tiny
  python -m experiments.bench --suite=rollout,update,step --size=mid --peers \
    --json=mid.json
  python -m experiments.bench --suite=allocate --json=allocate.json

Suites are described in the files of `experiments.benchmarks` that they have
their names from. A row of the table, and record of the JSON file, is one case:
seconds of a call (median, least, greatest), useful tokens a second, FLOPs, the
share that the bare matrix products of the same model would take of the time,
seconds to compile, peak memory; `timing.Row` says what each field means.

With --peers google-tunix and TRL do the same, each in a virtual environment
that is made under the cache folder, and in turns with the library, so that a
noisy machine hits all alike. A ratio above 1 is in the library's favour. A
peer that cannot be had has no ratio, and why is printed.

--profile=DIR writes a trace of one call of each case, which Perfetto and
TensorBoard open.
"""

import json
import pathlib

from absl import flags

from experiments import cli
from experiments.benchmarks import shapes, suites
from experiments.benchmarks.peers import client, packages

_SUITE = flags.DEFINE_list(
  "suite", ["allocate"], "What to measure, comma-separated."
)
_SIZE = flags.DEFINE_string("size", "tiny", "Of the model and its rows.")
_ONLY = flags.DEFINE_string("only", "", "Cases whose name begins with this.")
_PEERS = flags.DEFINE_bool("peers", False, "Time other frameworks too.")
_BATCHES = flags.DEFINE_list(
  "peer_batches",
  [],
  "Rows at once that peers choose from for ragged rows; none for `rows` and "
  "four times as many.",
)
_REPEATS = flags.DEFINE_integer("repeats", 5, "Calls that are measured.")
_JSON = flags.DEFINE_string("json", None, "File for the rows, or none.")
_PROFILE = flags.DEFINE_string("profile", None, "Folder for traces, or none.")
_SIZES = flags.DEFINE_list(
  "sizes", ["10000", "100000", "1000000"], "Prompts of the suite `allocate`."
)
_STEPS = flags.DEFINE_integer("steps", 1000, "Of the suite `soak`.")
# The shapes' own fields: what is not given is the size's.
_SHAPES = {
  name: {
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
  }[kind](name, None, f"{name} of the shapes; none for the size's.")
  for name, kind in shapes.Shapes.__annotations__.items()
}


def main() -> None:
  changes = {
    name: flag.value for name, flag in _SHAPES.items() if flag.value is not None
  }
  of, size = suites.sized(_SIZE.value, changes)
  if _PEERS.value and of.dtype != "float32":
    raise cli.Refused(f"--dtype={of.dtype}: peers are timed in float32 only")
  try:
    sizes = tuple(int(size) for size in _SIZES.value)
    batches = tuple(int(size) for size in _BATCHES.value)
  except ValueError:
    raise cli.Refused(
      f"--sizes={_SIZES.value} --peer_batches={_BATCHES.value}: must be "
      "integers"
    ) from None
  options = suites.Options(
    of,
    size,
    _REPEATS.value,
    batches=batches or (of.rows, 4 * of.rows),
    only=_ONLY.value,
    profile=_PROFILE.value,
    sizes=sizes,
    steps=_STEPS.value,
  )
  for suite in _SUITE.value:
    suites.check(suite, options)
  peers = [client.Worker(name) for name in packages.REQUIREMENTS]
  peers = tuple(peers) if _PEERS.value else ()
  records = []
  try:
    for suite in _SUITE.value:
      rows = suites.run(suite, options._replace(peers=peers))
      print(suites.SUITES[suite].table(rows), flush=True)
      records += [row._asdict() for row in rows]
      if _JSON.value:  # after every suite: what is measured is not lost
        text = json.dumps(records, indent=2) + "\n"
        pathlib.Path(_JSON.value).write_text(text, encoding="utf-8")
  finally:
    for peer in peers:
      peer.close()


if __name__ == "__main__":
  cli.launch(main)
