"""Suite: how long does a whole step take, from prompts to new weights?

  step_fixed   rows of `new` tokens each
  step_ragged  rows that end at stop tokens, in the fastest number of slots

One jitted function by `train.fused`: select prompts, generate, verify, value,
update. The task pays 1 where the sum of a row's tokens is odd.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import rollout as rollout_suite
from experiments.benchmarks import shapes, timing
from experiments.benchmarks import update as update_suite
from jaxroll import metrics, models, recipes, rollout, train, types

_PROMPTS = 32  # times as many as a step takes


def cases(of: shapes.Shapes) -> dict[str, Callable]:
  """name -> () -> timing.Case."""
  return {
    "step_fixed": functools.partial(case, of, "step_fixed", ragged=False),
    "step_ragged": functools.partial(case, of, "step_ragged", ragged=True),
  }


def parity(of: shapes.Shapes, *, ragged: bool) -> types.Task:
  """A task whose reward is the parity of the sum of a row's tokens."""
  num = _PROMPTS * of.rows // shapes.GROUP

  def prompts(data, ids):
    place = jnp.maximum(ids, 0)
    earlier = jnp.tril(ids[:, None] == ids[None, :], k=-1)
    occurrence = jnp.sum(earlier, axis=1, dtype=jnp.int32)
    return (
      types.Prompts(id=ids, occurrence=occurrence, data=()),
      types.Contexts(data[place], jnp.full(ids.shape, of.prompt, jnp.int32)),
    )

  def verify(prompts, rollouts):
    del prompts
    odd = jnp.sum(rollouts.tokens, axis=1) % 2 == 1
    return types.Outcome(
      reward=(odd & rollouts.valid).astype(jnp.float32),
      status=jnp.where(
        rollouts.valid, jnp.int32(types.SCORED), jnp.int32(types.ABORTED)
      ),
    )

  return types.Task(
    name="parity",
    data=jnp.asarray(shapes.prompts(of, num)),
    prompts=prompts,
    verify=verify,
    solutions=None,
    decode=str,
    grade=np.zeros(num, np.int32),
    grades=("one",),
    train_pool=np.arange(num, dtype=np.int32),
    eval_pool=np.zeros(0, np.int32),
    vocab_size=of.vocab,
    prompt_length=of.prompt,
    response_length=of.new,
    stop_tokens=tuple(shapes.stop_tokens(of)) if ragged else (),
    jittable=True,
  )


class Runner:
  """A run of steps that hands its state on; `call` makes one."""

  def __init__(self, of: shapes.Shapes, *, ragged: bool, slots: int):
    self.task = parity(of, ragged=ragged)
    self.policy = models.policy(shapes.config(of))
    num = of.rows // shapes.GROUP
    sizes = types.Sizes(len(self.task.grade), num, of.rows, of.prompt, of.new)
    rules, optimiser = recipes.uniform(sizes), train.adamw(update_suite.RATE)
    functions = train.make_step(
      rules,
      self.task,
      self.policy,
      optimiser,
      sizes,
      slots=slots,
      micro_rows=min(of.micro_rows, of.rows),
    )
    self.settings = train.Settings(
      rollout.sampler(noise="icdf"),
      rollout.stops(self.task.stop_tokens),
      jnp.int32(of.new),
    )
    init = functools.partial(
      train.init_state, rules, self.policy, optimiser, sizes
    )
    self.state = jax.jit(init)(jax.random.key(0))
    self._step = jax.jit(train.fused(functions, self.task), donate_argnums=0)

  def call(self) -> train.Output:
    """One step."""
    out = self._step(self.state, self.task.data, self.settings)
    self.state, output = jax.block_until_ready(out)
    return output

  def largest_logit(self) -> float:
    """max |logit| over some prompts, by the weights as they are now."""
    tokens = self.task.data[: len(self.task.data) // _PROMPTS]
    at = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)

    @jax.jit
    def largest(params):
      hidden, _ = self.policy.apply(params, tokens, at)
      return jnp.max(jnp.abs(self.policy.unembed(params, hidden)))

    return float(largest(self.state.learners["policy"].params))


def case(of: shapes.Shapes, name: str, *, ragged: bool) -> timing.Case:
  """Steps that follow each other."""
  slots = of.slots or of.rows
  if ragged:
    slots = rollout_suite.best(of, of.rows).slots
  runner = Runner(of, ragged=ragged, slots=slots)
  counter, compiled, gaps = metrics.CompileCounter(), [], []

  def call():
    mark = counter.count
    output = runner.call()
    compiled.append(counter.since(mark))
    names = ("sampler_gap_max", "sampler_gap_mean")
    gaps.append([float(output.metrics[name]) for name in names])
    return output

  def flops(output):
    length = np.asarray(output.rollouts.length)
    num = of.rows // shapes.GROUP
    rollouts = shapes.prompt_flops(of, num) + shapes.row_flops(of, length)
    return rollouts + update_suite.flops(of, length)

  def products(output):
    length = np.asarray(output.rollouts.length)
    decode = rollout_suite.decode_products(of, slots, length.sum())
    return decode + update_suite.update_products(of, length)

  def details():
    counter.close()
    highest, mean = np.max(gaps, axis=0)
    return {
      "slots": slots,
      "compiles": sum(compiled[1:]),
      "sampler_gap_max": float(highest),
      "sampler_gap_mean": float(mean),
      "sampler_gap_limit": 2e-6 * max(1.0, runner.largest_logit()),
    }

  return timing.Case(
    name=name,
    call=call,
    tokens=lambda output: int(np.sum(output.rollouts.length)),
    flops=flops,
    products=products,
    details=details,
    job={
      "kind": "step",
      "stops": shapes.stop_tokens(of) if ragged else [],
      "rate": update_suite.RATE,
      "arrays": {"prompts": np.asarray(runner.task.data)},
    },
  )
