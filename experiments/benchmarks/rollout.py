"""Suite: how fast are rows generated? Full ones, and ragged ones in slots.

  rollout_fixed        `rows` rows of `new` tokens each, as many slots
  rollout_ragged_N     4 and 16 times as many rows, which end at stop tokens

A repeat draws other tokens. Peers are given the same prompts and decode the
rows in batches; of the sizes in `batches` they take what is fastest for them.
"""

import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import products, shapes, timing
from jaxroll import models, rollout, types


def cases(of: shapes.Shapes, batches: tuple) -> dict[str, Callable]:
  """name -> () -> timing.Case.

  Args:
    of: the shapes.
    batches: rows at once that peers may choose from for ragged rows.
  """
  made = {"rollout_fixed": functools.partial(fixed, of)}
  for rows in (4 * of.rows, 16 * of.rows):
    name = f"rollout_ragged_{rows}"
    made[name] = functools.partial(ragged, of, name, rows, batches)
  return made


def fixed(of: shapes.Shapes) -> timing.Case:
  """Rows without a stop token."""
  slots = of.slots or of.rows
  return _case(of, "rollout_fixed", generator(of, of.rows, False, slots), (), 1)


def ragged(of: shapes.Shapes, name: str, rows: int, batches: tuple):
  """Rows that end at a stop token, in the fastest number of slots."""
  call = best(of, rows)
  return _case(of, name, call, batches or (of.rows,), rows // of.rows)


def candidates(of: shapes.Shapes, rows: int) -> list[int]:
  """Numbers of slots to choose from for ragged rows."""
  if of.slots:
    return [of.slots]
  if rows > of.rows:
    return [slots * of.rows for slots in (1, 2, 4) if slots * of.rows <= rows]
  return sorted({max(1, rows // 4), max(1, rows // 2), rows})


def best(of: shapes.Shapes, rows: int) -> Callable:
  """The generator of ragged rows with the fastest number of slots."""
  choices = [generator(of, rows, True, n) for n in candidates(of, rows)]
  if len(choices) == 1:
    return choices[0]

  def seconds(call):
    call()
    began = time.perf_counter()
    call()
    return time.perf_counter() - began

  return min(choices, key=seconds)


def generator(of: shapes.Shapes, rows: int, ragged: bool, slots: int):
  """() -> i32[rows], lengths of rows that are drawn anew at every call.

  It is compiled. Its attributes: `slots`; `compile_s`, seconds of that.
  """
  policy = models.policy(shapes.config(of))
  params = jax.jit(policy.init)(jax.random.key(0))
  num = rows // shapes.GROUP
  contexts = types.Contexts(
    jnp.asarray(shapes.prompts(of, num)), jnp.full((num,), of.prompt, jnp.int32)
  )
  request = rollout.fill(
    jnp.full((num,), shapes.GROUP, jnp.int32),
    jnp.zeros((num,), jnp.int32),
    rows=rows,
    step=0,
    limit=of.new,
  )
  settings = rollout.sampler(noise="icdf")
  rules = rollout.stops(shapes.stop_tokens(of) if ragged else ())

  @jax.jit
  def generate(params, contexts, request, seed):
    keys = rollout.row_keys(
      jax.random.key(seed),
      request.born,
      request.group,
      jnp.zeros_like(request.group),
      request.index,
    )
    return rollout.generate(
      policy,
      params,
      contexts,
      request,
      keys,
      settings,
      rules,
      slots=slots,
      max_length=of.new,
    )

  seeds = iter(range(2**31))
  began = time.perf_counter()
  generate = generate.lower(params, contexts, request, np.int32(0)).compile()
  compile_s = time.perf_counter() - began

  def call():
    out = generate(params, contexts, request, np.int32(next(seeds)))
    rows, _ = jax.block_until_ready(out)
    return np.asarray(rows.length)

  call.slots, call.compile_s = slots, compile_s
  return call


def decode_products(of: shapes.Shapes, slots: int, tokens: float) -> float:
  """Seconds of the bare products of so many tokens, `slots` at once."""
  return tokens / slots * products.seconds(of, slots, slots)


def _case(of, name, call, batches, times):
  prompts = times * of.rows // shapes.GROUP
  return timing.Case(
    name=name,
    call=call,
    tokens=lambda length: int(length.sum()),
    flops=lambda length: (
      shapes.prompt_flops(of, prompts) + shapes.row_flops(of, length)
    ),
    products=lambda length: decode_products(of, call.slots, length.sum()),
    details=lambda: {"slots": call.slots, "compile_s": call.compile_s},
    job={
      "kind": "rollout",
      "stops": shapes.stop_tokens(of) if batches else [],
      "batches": list(batches) or [of.rows],
      "arrays": {"prompts": shapes.prompts(of, prompts)},
    },
  )
