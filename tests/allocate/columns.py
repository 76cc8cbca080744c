"""The columns of a step, in numpy: what an allocator may ask for by name."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np

from jaxroll.types import PromptStats, Tally


def stats(num_prompts: int) -> PromptStats:
  zeros = jnp.zeros(num_prompts, jnp.float32)
  ones = jnp.ones(num_prompts, jnp.float32)
  never = jnp.full(num_prompts, -1, jnp.int32)
  # No two prompts alike: an allocator that reads beliefs is seen to.
  alpha = 1 + 2 * jnp.arange(num_prompts, dtype=jnp.float32)
  return PromptStats(alpha, ones, zeros, zeros, zeros, zeros, never)


def tally(rewards: list[list[float]]) -> Tally:
  """Tally of each prompt's scored rewards so far."""
  as_f32 = lambda xs: jnp.asarray(np.array(xs, np.float32))  # noqa: E731
  mean = [float(np.mean(r)) if r else 0.0 for r in rewards]
  return Tally(
    count=jnp.asarray(np.array([len(r) for r in rewards], np.int32)),
    success=as_f32([np.clip(r, 0, 1).sum() if r else 0.0 for r in rewards]),
    mean=as_f32(mean),
    m2=as_f32([sum((x - m) ** 2 for x in r) for r, m in zip(rewards, mean)]),
  )


def bind(counts, columns: dict) -> dict:
  """The columns that `counts` asks for."""
  names = [
    name
    for name, parameter in inspect.signature(counts).parameters.items()
    if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
  ]
  return {name: columns[name] for name in names}


def run_step(
  allocator, budget, reward, num_prompts, *, waiting=None, call=None
):
  """All rounds of a step; `reward(round, prompt, place)` is None if unscored.

  Returns the counts of each round, int [rounds, P].
  """
  call = call or allocator.counts
  rewards = [[] for _ in range(num_prompts)]
  given = np.zeros(num_prompts, np.int32)
  waiting = np.zeros(num_prompts, bool) if waiting is None else waiting
  history = []
  for number, rows in enumerate(allocator.rounds(budget, num_prompts)):
    columns = {
      "stats": stats(num_prompts),
      "tally": tally(rewards),
      "counts": jnp.asarray(given),
      "waiting": jnp.asarray(waiting),
    }
    new = call(
      **bind(allocator.counts, columns),
      round=jnp.int32(number),
      rows=jnp.int32(rows),
      key=jax.random.fold_in(jax.random.key(0), number),
    )
    assert new.dtype == jnp.int32
    new = np.asarray(new)
    for prompt in range(num_prompts):
      places = range(given[prompt], given[prompt] + new[prompt])
      drawn = [reward(number, prompt, place) for place in places]
      rewards[prompt] += [x for x in drawn if x is not None]
    given = given + new
    history.append(new)
  return np.stack(history)
