"""One small run for all tests of training: task, policy, sizes, recipes."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll import environments, models, recipes, rollout, select, train, types
from jaxroll.environments import vocabulary

# What the verifier does with a step's rows: a column of the task's data, so
# that one compiled step serves all of them.
PARITY, SOME_UNSCORABLE, TIED, UNSCORABLE, NAN, HUGE = range(6)

_SUMS = environments.arithmetic(
  grades=("+:1:2",), per_grade=32, eval_per_grade=8, response_length=6
)
SIZES = types.Sizes(
  num_ids=40, prompts=8, rows=32, prompt_length=5, response_length=6
)
CONFIG = models.Config(
  vocab_size=vocabulary.SIZE,
  embed=32,
  layers=1,
  heads=4,
  kv_heads=2,
  head_dim=8,
  ffn=64,
  tied_embedding=False,
)
POLICY = models.policy(CONFIG)
OPTIMISER = train.adamw(3e-3)

RECIPES = {
  "uniform": recipes.uniform,
  "vigor": functools.partial(recipes.vigor, rounds=2),
  "vade": recipes.vade,
  "pilot_commit": functools.partial(recipes.pilot_commit, pilot=2, commit=6),
  "pilot_commit+vade": lambda sizes: recipes.pilot_commit(
    sizes, pilot=2, commit=6
  )._replace(select=(select.vade,)),
}


class Data(NamedTuple):
  """The sums' table and, for each problem, what the verifier does."""

  prompt: np.ndarray
  prompt_length: np.ndarray
  answer: np.ndarray
  answer_length: np.ndarray
  kind: np.ndarray


def data(kind=PARITY):
  return Data(*_SUMS.data, np.full(SIZES.num_ids, kind, np.int32))


def _verify(prompts, rollouts):
  """1 for an even first token: half of the rows of an untrained policy."""
  kind = prompts.data.kind[rollouts.group]
  even = rollouts.tokens[:, 0] % 2 == 0
  failed = (kind == SOME_UNSCORABLE) & (rollouts.index == 2)
  failed |= kind == UNSCORABLE
  reward = jnp.where(kind == TIED, 1.0, even.astype(jnp.float32))
  reward = jnp.where(kind == HUGE, (2 * reward - 1) * 3e38, reward)
  # Garbage where there is no score: nobody may read it.
  nonsense = (kind == NAN) & (rollouts.index == 2)
  reward = jnp.where(failed | nonsense, jnp.nan, reward)
  status = jnp.where(failed, types.UNSCORABLE, types.SCORED)
  return types.Outcome(reward, jnp.where(rollouts.valid, status, types.ABORTED))


TASK = _SUMS._replace(data=data(), verify=_verify)
# The same, on the host.
HOST_TASK = TASK._replace(
  jittable=False, verify=lambda *args: jax.device_get(_verify(*args))
)
SETTINGS = train.Settings(
  rollout.sampler(1.0), rollout.stops(TASK.stop_tokens), jnp.int32(6)
)


def params(seed=0):
  """Random parameters whose policy is far from uniform."""
  made = POLICY.init(jax.random.key(seed))
  return jax.tree.map(lambda x: 8.0 * x if x.ndim > 1 else x, made)


def state(rules, optimiser=OPTIMISER, *, seed=0):
  key = jax.random.key(seed)
  return train.init_state(
    rules, POLICY, optimiser, SIZES, key, params=params(seed)
  )


def make(rules, *, task=TASK, optimiser=OPTIMISER, mesh=None, slots=16):
  return train.make_step(
    rules,
    task,
    POLICY,
    optimiser,
    SIZES,
    slots=slots,
    micro_rows=16,
    mesh=mesh,
  )


def fused(rules):
  """The whole step, not jitted yet: (state, data, settings)."""
  return train.fused(make(rules), TASK)


def copy(tree):
  """For a step that takes over its input's memory."""
  return jax.tree.map(jnp.copy, tree)


class Run(NamedTuple):
  """A few steps: the states before, between and after, and the outputs.

  Attributes:
    step: the jitted step; it donates its state.
    states: steps + 1 of them. outputs: steps of them, in numpy.
    compilations: of the step.
  """

  step: Callable
  states: list
  outputs: list
  compilations: int


@functools.cache
def run(name, steps=4):
  """Runs a recipe by name, once for all tests that look at it."""
  rules = RECIPES[name](SIZES)
  step = jax.jit(fused(rules), donate_argnums=0)
  states, outputs = [state(rules)], []
  for _ in range(steps):
    after, output = step(copy(states[-1]), TASK.data, SETTINGS)
    states.append(after)
    outputs.append(jax.device_get(output))
  return Run(step, states, outputs, step._cache_size())


def same(a, b):
  """Whether two trees are equal to the bit."""
  return all(
    bool(jnp.all(x == y)) for x, y in zip(*map(jax.tree.leaves, (a, b)))
  )


def close(a, b, atol=1e-6):
  """Two trees are equal up to the order of floating-point sums."""
  for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True):
    np.testing.assert_allclose(x, y, rtol=1e-5, atol=atol)
