"""What travels between the parts of jaxroll: records, bundles, column names.

Letters used in every shape of the library:

  B  rows of a step's batch         P  prompts of a step
  R  rows of one generation round   N  prompts of a task
  S  context (prompt) length        T  tokens after the context
  V  vocabulary                     X  contexts of a step
  H  longest given continuation     C  reward channels, or a buffer's capacity
  Q  carried rows                   E  stop tokens
  K  sources of prompts             M  prompts of a pool

Inside models also: D embedding, F feed-forward, K kv heads, L layers; K is
kv heads there.

A row is a prompt's context, then given tokens (may be none), then sampled
ones. Rows are flat: `group` says which prompt a row belongs to, so groups of
different sizes are the normal case and no shape depends on an allocation.
"""

from jaxroll.types._bundles import EMPTY as EMPTY
from jaxroll.types._bundles import Allocator as Allocator
from jaxroll.types._bundles import Cache as Cache
from jaxroll.types._bundles import Hook as Hook
from jaxroll.types._bundles import Loss as Loss
from jaxroll.types._bundles import Method as Method
from jaxroll.types._bundles import Policy as Policy
from jaxroll.types._bundles import Quota as Quota
from jaxroll.types._bundles import Replay as Replay
from jaxroll.types._bundles import Sizes as Sizes
from jaxroll.types._bundles import Task as Task
from jaxroll.types._bundles import Trace as Trace
from jaxroll.types._bundles import Trust as Trust
from jaxroll.types._columns import COLUMNS as COLUMNS
from jaxroll.types._records import ABORTED as ABORTED
from jaxroll.types._records import ENVIRONMENT as ENVIRONMENT
from jaxroll.types._records import GIVEN as GIVEN
from jaxroll.types._records import PAD as PAD
from jaxroll.types._records import SAMPLED as SAMPLED
from jaxroll.types._records import SCORED as SCORED
from jaxroll.types._records import UNFINISHED as UNFINISHED
from jaxroll.types._records import UNSCORABLE as UNSCORABLE
from jaxroll.types._records import Contexts as Contexts
from jaxroll.types._records import Learner as Learner
from jaxroll.types._records import Outcome as Outcome
from jaxroll.types._records import Prompts as Prompts
from jaxroll.types._records import PromptStats as PromptStats
from jaxroll.types._records import Request as Request
from jaxroll.types._records import Rollouts as Rollouts
from jaxroll.types._records import Tally as Tally
from jaxroll.types._records import TrainState as TrainState

__all__ = [  # noqa: RUF022
  "ABORTED",
  "Allocator",
  "COLUMNS",
  "Cache",
  "Contexts",
  "EMPTY",
  "ENVIRONMENT",
  "GIVEN",
  "Hook",
  "Learner",
  "Loss",
  "Method",
  "Outcome",
  "PAD",
  "Policy",
  "PromptStats",
  "Prompts",
  "Quota",
  "Replay",
  "Request",
  "Rollouts",
  "SAMPLED",
  "SCORED",
  "Sizes",
  "Tally",
  "Task",
  "Trace",
  "TrainState",
  "Trust",
  "UNFINISHED",
  "UNSCORABLE",
]
