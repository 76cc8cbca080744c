"""What travels between the parts of jaxroll: records, bundles, column names.

Letters used in every shape of the library:

  B  rows of a step's batch         P  prompts of a step
  R  rows of one generation round   N  prompts of a task
  S  context (prompt) length        T  tokens after the context
  V  vocabulary                     X  contexts of a step
  H  longest given continuation     C  reward channels, or a buffer's capacity
  Q  carried rows                   E  stop tokens

Inside models also: D embedding, F feed-forward, K kv heads, L layers.

A row is a prompt's context, then given tokens (may be none), then sampled
ones. Rows are flat: `group` says which prompt a row belongs to, so groups of
different sizes are the normal case and no shape depends on an allocation.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
from flax import struct

# Outcome.status, Rollouts.origin.
SCORED, UNSCORABLE, ABORTED, UNFINISHED = 0, 1, 2, 3
PAD, SAMPLED, GIVEN, ENVIRONMENT = 0, 1, 2, 3

# The closed list of names a method may take as an argument, with who makes
# each. The recipe wires methods by these names and nothing else.
COLUMNS = {
  # one entry a prompt of the step
  "stats": "the step: PromptStats; [P] of the step's prompts for allocate, "
  "[N] of the whole task for select",
  "tally": "the step: evidence of this step so far, [P]",
  "ids": "the step: i32[P], its prompts' rows of PromptStats, -1 empty",
  "counts": "the step: i32[P], rows already allocated to each prompt in it",
  "waiting": "the step: bool[P], prompts whose group already holds carried "
  "rows (needs a replay method in the recipe)",
  "pool": "the task: i32[M], ids that may be selected",
  # one entry a row
  "group": "the rollouts: i32[B], which prompt of the step",
  "index": "the rollouts: i32[B], place within the prompt's group",
  "length": "the rollouts: i32[B], tokens after the context",
  "given_length": "the rollouts: i32[B], given tokens after the context",
  "round": "the rollouts: i32[B], generation round, -1 for carried rows",
  "stopped": "the rollouts: bool[B], ended by a stop rule, not by its limit",
  "valid": "the step: bool[B], generated, scored and not dropped by keep",
  "status": "the verifier: i32[B]",
  "reward": "the verifier, then the recipe's reward chain: f32[B]",
  "adv": "the recipe's advantage chain: f32[B] or f32[B, T]",
  # one entry a token
  "tokens": "the rollouts: i32[B, T]",
  "mask": "the rollouts and keep: bool[B, T], tokens that are trained",
  "entropy": "the sampler: f32[B, T], of the distribution sampled from",
  "behaviour_logp": "the sampler: f32[B, T], on its own support",
  "old_logp": "a scoring pass: f32[B, T], the policy before the update",
  "ref_logp": "a scoring pass: f32[B, T], needs a frozen reference: give "
  "the recipe reference=True",
  "logp": "the learner: f32[B, T], with gradient",
  "anchor": "trust: f32[B, T], the ratio's denominator",
  "low": "trust: f32[B, T], lower bound of the ratio",
  "high": "trust: f32[B, T], upper bound of the ratio",
  "weight": "trust: f32[B, T], importance weight",
}


class Prompts(struct.PyTreeNode):
  """The prompts of one step.

  Attributes:
    id: i32[P], row of `PromptStats`; -1 is an empty slot that gets no rows.
    occurrence: i32[P], how often the same id stands earlier in this step.
    data: the task's own arrays, leading axis P (answers, numbers ...).
  """

  id: chex.Array
  occurrence: chex.Array
  data: Any


class Contexts(struct.PyTreeNode):
  """What a model reads before a row's own tokens.

  The first P contexts are the step's plain prompts, in order.

  Attributes:
    tokens: i32[X, S], right-padded.
    length: i32[X], 1 <= length <= S.
  """

  tokens: chex.Array
  length: chex.Array


class Request(struct.PyTreeNode):
  """One round's plan: the rows to be generated.

  Attributes:
    group: i32[R], prompt of the step.
    index: i32[R], place within the prompt's group: part of the row's identity.
    context: i32[R], row of `Contexts`.
    born: i32[R], step in which the row was begun: part of its identity.
    limit: i32[R], most tokens after the context, given ones included, <= T.
    given: i32[R, H], tokens put after the context (a stem, a partial rollout,
      an injected phrase); H may be 0.
    given_length: i32[R], <= H and <= limit.
    row: i32[R], where the row lands in `Rollouts`.
    valid: bool[R], False for the unused tail of a round.
  """

  group: chex.Array
  index: chex.Array
  context: chex.Array
  born: chex.Array
  limit: chex.Array
  given: chex.Array
  given_length: chex.Array
  row: chex.Array
  valid: chex.Array


class Rollouts(struct.PyTreeNode):
  """Rows with their tokens; everything after a row's `length` is zero.

  Attributes:
    group: i32[B]. index: i32[B]. context: i32[B]. born: i32[B].
    round: i32[B], generation round of this step; -1 for carried rows.
    given_length: i32[B]. length: i32[B], given and sampled tokens.
    valid: bool[B], the row exists.
    stopped: bool[B], ended by a stop token, stop sequence or stop hook.
    tokens: i32[B, T]. origin: i8[B, T], PAD, SAMPLED, GIVEN or ENVIRONMENT.
    behaviour_logp: f32[B, T], the sampler's log-prob of each token on the
      support it samples from (of a given token too: what the sampler would
      have said; -inf outside its support).
    entropy: f32[B, T], nats, of that distribution.
    mask: bool[B, T], sampled by this row, the stop token included.
  """

  group: chex.Array
  index: chex.Array
  context: chex.Array
  born: chex.Array
  round: chex.Array
  given_length: chex.Array
  length: chex.Array
  valid: chex.Array
  stopped: chex.Array
  tokens: chex.Array
  origin: chex.Array
  behaviour_logp: chex.Array
  entropy: chex.Array
  mask: chex.Array


class Outcome(struct.PyTreeNode):
  """What happened to each row.

  Attributes:
    reward: f32[B], 0 where the row is not scored.
    status: i32[B], SCORED, UNSCORABLE, ABORTED or UNFINISHED.
  """

  reward: chex.Array
  status: chex.Array


class PromptStats(struct.PyTreeNode):
  """What is believed about every prompt of a task.

  alpha, beta: f32[N], Beta posterior of the solve rate, prior included.
  weight: f32[N], effective number of rollouts behind the moments.
  mean: f32[N], reward mean. m2: f32[N], weighted sum of squared deviations.
  length: f32[N], mean tokens of a rollout, decayed like the moments.
  seen: i32[N], step last rolled out, -1 never.
  """

  alpha: chex.Array
  beta: chex.Array
  weight: chex.Array
  mean: chex.Array
  m2: chex.Array
  length: chex.Array
  seen: chex.Array


class Tally(struct.PyTreeNode):
  """Evidence of the running step, by prompt: what later rounds may read.

  Attributes:
    count: i32[P], scored rows so far. success: f32[P], sum of rewards clipped
      to [0, 1]. mean: f32[P]. m2: f32[P], sum of squared deviations.
  """

  count: chex.Array
  success: chex.Array
  mean: chex.Array
  m2: chex.Array


class Learner(struct.PyTreeNode):
  """A trained network."""

  params: Any
  opt_state: Any


class TrainState(struct.PyTreeNode):
  """Everything a run carries from one step to the next, and nothing else.

  Attributes:
    learners: by name, "policy" first of all.
    frozen: parameters by name ("reference").
    stats: PromptStats[N].
    methods: state of each stateful method, by family name.
    step: i32[], steps done. key: the run's typed PRNG key; never changes:
      every draw folds in the step and what it is for.
  """

  learners: dict[str, Learner]
  frozen: dict[str, Any]
  stats: PromptStats
  methods: dict[str, Any]
  step: chex.Array
  key: chex.Array


# --- bundles of functions


class Policy(NamedTuple):
  """A language model as pure functions over a nested dict of parameters.

  A key is visible to a query iff its position is not greater than the query's;
  padding and empty cache columns carry position `EMPTY`.

  Attributes:
    init: (key) -> params.
    apply: (params, tokens i32[B, S], positions i32[B, S], cache=None,
      column=None) -> hidden f32[B, S, D], cache. Without a cache the S tokens
      attend to each other. With one, their keys and values are written to
      columns column ... column + S - 1 (the same for all rows) and the tokens
      attend to all columns.
    unembed: (params, hidden [..., D]) -> logits f32[..., V].
    init_cache: (rows, columns) -> Cache, all columns EMPTY.
    prepare: (params) -> params as a decode loop wants them (layers unstacked
      once instead of at every token); `apply` takes both.
  """

  init: Callable
  apply: Callable
  unembed: Callable
  init_cache: Callable
  prepare: Callable = lambda params: params


# No query is ever this late: nothing attends to padding or empty columns.
EMPTY = 2**30


class Cache(NamedTuple):
  """Keys and values of decoded tokens."""

  keys: tuple  # one array a layer, [B, K, columns, head_dim]
  values: tuple
  positions: chex.Array  # i32[B, columns], each column's in its row, or EMPTY


class Task(NamedTuple):
  """Prompts and a verifier.

  Attributes:
    data: pytree of arrays, leading axis N: all that `prompts` needs.
    prompts: (data, ids i32[P]) -> Prompts, Contexts; an id of -1 gives some
      prompt with `Prompts.id == -1`. Jittable.
    verify: (prompts, rollouts) -> Outcome. Jittable if `jittable`; otherwise
      it gets and returns numpy arrays and runs on the host.
    solutions: (data, ids, key) -> tokens i32[P, T], length i32[P]: a correct
      answer, stop token included, or None where there are none. Jittable.
    decode: (ids sequence) -> str, for humans. Host only.
    grade: i32[N], difficulty of each prompt, 0 easiest; grades: their names.
    train_pool, eval_pool: i32[M] ids, disjoint, numpy.
    vocab_size, prompt_length S, response_length T: static sizes.
    stop_tokens: ids that end a response.
    jittable: whether `verify` may be traced.
  """

  name: str
  data: Any
  prompts: Callable
  verify: Callable
  solutions: Callable | None
  decode: Callable
  grade: Any
  grades: tuple
  train_pool: Any
  eval_pool: Any
  vocab_size: int
  prompt_length: int
  response_length: int
  stop_tokens: tuple
  jittable: bool


class Allocator(NamedTuple):
  """How many new rows each prompt gets, in one round or several.

  Attributes:
    rounds: (budget, P) -> tuple of ints, the most rows of each round, together
      at most `budget`. Raises ValueError where that is infeasible.
    counts: (stats, tally, ..., *, round, rows, key) -> i32[P], new rows of
      each prompt in this round, sum <= rows. `round` and `rows` may be traced.
  """

  rounds: Callable
  counts: Callable


class Method(NamedTuple):
  """A function with a memory."""

  init: Callable  # (sizes: Sizes, *, key) -> state
  apply: Callable  # (state, ...columns, *, key) -> output, state
  update: Callable  # (state, ...columns) -> state, once the step has ended


class Replay(NamedTuple):
  """Rows kept for a later step.

  Attributes:
    init: (sizes: Sizes, *, key) -> state.
    waiting: (sizes: Sizes) -> (W, Q): most groups and rows resumed in a step.
    blocked: (state) -> bool[N], prompts that must not be selected afresh.
    resume: (state, *, step) -> ids i32[W] (-1 none), Rollouts[Q] (group is
      the place in ids), Outcome[Q], state.
    add: (state, prompts, rollouts, outcome, waiting, *, step) -> state.
  """

  init: Callable
  waiting: Callable
  blocked: Callable
  resume: Callable
  add: Callable


class Sizes(NamedTuple):
  """Static sizes of a run: N, P, the budget of new rows a step, S, T."""

  num_ids: int
  prompts: int
  rows: int
  prompt_length: int
  response_length: int


class Trust(NamedTuple):
  """How far the policy may move, by token: f32[B, T] each, no gradient."""

  anchor: chex.Array
  low: chex.Array
  high: chex.Array
  weight: chex.Array


class Loss(NamedTuple):
  """A named term of the objective.

  Attributes:
    fn: columns -> loss f32[B, T], aux dict of f32[B, T].
    coefficient: multiplies the term; never its denominator.
    aggregate: columns -> f32[B, T] weights, `sum(weights * loss)` is the
      term's value; made from the whole batch before micro-batching.
  """

  name: str
  fn: Callable
  coefficient: float
  aggregate: Callable


class Hook(NamedTuple):
  """A function called at every decoded token, with a memory by row.

  explore changes logits: apply(logits f32[R, V], carry) -> logits, carry.
  terminate stops rows: apply(trace: Trace, carry) -> stop bool[R], carry.
  """

  init: Callable  # (rows) -> carry, pytree with leading axis rows, at a start
  apply: Callable


class Trace(NamedTuple):
  """What a stop rule sees of the token just written, [R] each."""

  token: chex.Array
  logp: chex.Array
  entropy: chex.Array
  position: chex.Array  # i32[R], 0 for the first token after the context
  given: chex.Array  # bool[R], the token was given, not sampled
