"""What is carried from one part of a step to the next: arrays, by name."""

from typing import Any

import chex
from flax import struct

# Outcome.status, Rollouts.origin.
SCORED, UNSCORABLE, ABORTED, UNFINISHED = 0, 1, 2, 3
PAD, SAMPLED, GIVEN, ENVIRONMENT = 0, 1, 2, 3


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
