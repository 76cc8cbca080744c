"""One row for each replay method: what the contract needs to know of it."""

from typing import NamedTuple

from jaxroll import replay
from jaxroll.types import Replay, Sizes

# Ids, prompts and rows of a step, context and response length.
SIZES = Sizes(
  num_ids=16, prompts=4, rows=14, prompt_length=2, response_length=3
)


class Case(NamedTuple):
  """A replay method.

  Attributes:
    replay: what is tested, at `SIZES`.
    groups: W, most groups resumed in a step.
    pilot: rows of a resumed group.
    commit: new rows that a resumed group gets in the tests.
  """

  replay: Replay
  groups: int
  pilot: int
  commit: int


CASES = {"pilots": Case(replay.pilots(groups=2, pilot=3), 2, 3, 4)}
