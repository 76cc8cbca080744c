"""What is handed to the step: bundles of functions and static sizes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex


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
    prefill: None, or (params, tokens i32[P, S], positions i32[P, S]) -> hidden
      [P, S, D], memory: a pytree [L, P, ...], all that later tokens of the
      same text read of these.
    extend: None, or (params, tokens i32[B, T], positions i32[B, T], memory
      [L, B, ...], memory_positions i32[B, S]) -> hidden [B, T, D]: the tokens
      attend to the memory and to each other.

  The last two let training read a prompt once for all of its rows; both are
  differentiable and together the same function as `apply` on [S, T]. Whoever
  replaces `apply` replaces them too, or takes them away.
  """

  init: Callable
  apply: Callable
  unembed: Callable
  init_cache: Callable
  prepare: Callable = lambda params: params
  prefill: Callable | None = None
  extend: Callable | None = None


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
    source: i32[N], where each prompt comes from, for mixtures; None takes the
      grade. sources: their names, () takes `grades`.
    feature: f32[N, D], an embedding of each prompt, or None for one made from
      its tokens.
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
  source: Any = None
  sources: tuple = ()
  feature: Any = None


class Allocator(NamedTuple):
  """How many new rows each prompt gets, in one round or several.

  Attributes:
    rounds: (budget, P) -> tuple of ints, the most rows of each round, together
      at most `budget`. Raises ValueError where that is infeasible.
    counts: (stats, tally, ..., *, round, rows, key) -> i32[P], new rows of
      each prompt in this round, sum <= rows. `round` and `rows` may be traced.
    gain: None, or (stats, tally, counts, ...) -> f32[P], what one more row of
      each prompt is worth, -inf for none: then `counts` plans the opening rows
      of one round, and every slot that falls free takes a row of the prompt of
      largest gain.
    decided: None, or (stats, tally, counts, ...) -> bool[P], prompts whose
      running rows are cancelled; with `gain` only.
  """

  rounds: Callable
  counts: Callable
  gain: Callable | None = None
  decided: Callable | None = None


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


class Quota(NamedTuple):
  """How many prompts of a step come from each source.

  Attributes:
    source: i32[N], of every prompt of the task, in [0, K).
    count: i32[K], prompts wanted of each, together the step's.
  """

  source: chex.Array
  count: chex.Array


class Sizes(NamedTuple):
  """Static sizes of a run: N, P, the budget of new rows a step, S, T, K, D.

  D is the length of a task's features, 32 where they are made of its tokens.
  """

  num_ids: int
  prompts: int
  rows: int
  prompt_length: int
  response_length: int
  num_sources: int = 1
  num_features: int = 32


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
