"""What does a generation cost: steps, compilations, copies, collectives?"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import parallel, rollout
from tests.rollout import hlo, toys

R, S, T, V = toys.R, toys.S, toys.T, toys.V
BIGRAM = toys.bigram()


def program(slots, **options):
  """HLO of a generation by the transformer."""
  policy, params = toys.transformer()
  if "mesh" in options:
    where = parallel.shardings(params, options["mesh"])
    params = jax.device_put(params, where)
  asked = toys.request()
  arguments = (
    params,
    toys.CONTEXTS,
    asked,
    toys.keys_of(asked),
    rollout.sampler(toys.TEMPERATURE),
    rollout.stops((toys.STOP,)),
  )
  compiled = toys.jitted(policy, slots, **options).lower(*arguments).compile()
  return compiled.as_text()


def test_cache_is_updated_in_place():
  """Inside the loops nothing makes a cache but an update of a part of it."""
  text = program(slots=3)
  # 3 slots, 2 kv heads, S + T columns, head dimension 8.
  cache = f"f32[3,2,{S + T},8]"
  inside = hlo.in_loops(text)
  for fusion in [i for i in inside if i.opcode == "fusion"]:
    inside += hlo.within(text, fusion)
  made = [i for i in inside if i.shape.startswith(cache)]
  allowed = ("dynamic-update-slice", "fusion", "get-tuple-element", "parameter")
  for i in made:
    assert i.opcode in allowed, i.text
  # Keys and values of two layers: the token's, and a new row's prefix.
  updates = [i for i in made if i.opcode == "dynamic-update-slice"]
  assert len(updates) >= 8


@pytest.mark.parametrize("shape", [(8, 1, 1), (2, 2, 2)])
def test_no_collective_crosses_row_shards_inside_the_loop(shape):
  """Queues of different length would wait for each other for ever."""
  text = program(slots=8, mesh=parallel.make_mesh(*shape))
  everywhere = [
    i
    for instructions in hlo.computations(text).values()
    for i in instructions
    if hlo.COLLECTIVE.match(i.opcode)
  ]
  assert everywhere, "contexts are gathered before the loop"
  inside = [i for i in hlo.in_loops(text) if hlo.COLLECTIVE.match(i.opcode)]
  if shape[2] == 1:
    assert not inside
    return
  assert inside, "the tensor axis needs its sums"
  # Device number = 2 * row shard + place on the tensor axis.
  for i in inside:
    for group in hlo.replica_groups(i):
      assert len({device // 2 for device in group}) == 1, i.text


def count_up(asked, slots):
  """Lengths are the limits: the counting policy never stops."""
  return toys.jitted(BIGRAM, slots)(
    toys.counting(),
    toys.CONTEXTS,
    asked,
    toys.keys_of(asked),
    rollout.sampler(0.0),
    rollout.stops(()),
  )


@pytest.mark.parametrize(
  "slots, steps",
  [
    # Rows of 3 1 2 2 0 4 1 1 tokens; the row of 0 never takes a slot.
    (1, 14),
    # Slot 0: 3 2 1 = rows 0, 3, 6 until step 6; slot 1: 1 2 4 until step 7,
    # then the last row, which slot 0 takes at step 6: 7 steps.
    (2, 7),
    # One slot each: the longest row.
    (8, 4),
    (50, 4),
  ],
)
def test_steps_by_hand(slots, steps):
  limit = jnp.array([3, 1, 2, 2, 0, 4, 1, 1], jnp.int32)
  rows, info = count_up(toys.request(limit), slots)
  np.testing.assert_array_equal(rows.length, limit)
  assert info.decode_steps == steps
  assert info.slot_steps == steps * min(slots, R)


def test_nothing_to_do_costs_nothing():
  _, info = count_up(toys.request(valid=False), 2)
  assert info.decode_steps == 0 and info.slot_steps == 0


def test_settings_do_not_compile_again():
  """Temperature, top-k, top-p, stops, limits and seeds are arrays."""
  traces = []

  def run(params, asked, keys, sampler, stops):
    traces.append(None)
    return rollout.generate(
      BIGRAM,
      params,
      toys.CONTEXTS,
      asked,
      keys,
      sampler,
      stops,
      slots=3,
      max_length=T,
    )

  jitted = jax.jit(run)
  outputs = set()
  for sampler, stops, limit, seed in (
    (rollout.sampler(1.0, 3, 0.9), rollout.stops((2,), ((1, 2),)), 7, 0),
    (rollout.sampler(0.0, 3, 0.9), rollout.stops((2,), ((1, 2),)), 7, 0),
    (rollout.sampler(2.0, 12, 1.0), rollout.stops((5,), ((1, 2),)), 7, 0),
    (rollout.sampler(2.0, 12, 1.0), rollout.stops((5,), ((3, 6),)), 4, 1),
  ):
    asked = toys.request(limit=limit)
    rows, _ = jitted(
      BIGRAM.init(jax.random.key(0)),
      asked,
      toys.keys_of(asked, seed),
      sampler,
      stops,
    )
    outputs.add(str(rows.tokens.tolist()))
  assert len(traces) == 1 and len(outputs) == 4


def test_several_seeds_in_one_program():
  params = BIGRAM.init(jax.random.key(0))
  asked = toys.request()

  def run(keys):
    return toys.jitted(BIGRAM, 3)(
      params,
      toys.CONTEXTS,
      asked,
      keys,
      rollout.sampler(1.0),
      rollout.stops((toys.STOP,)),
    )

  keys = [toys.keys_of(asked, seed) for seed in (0, 1)]
  together, info = jax.jit(lambda keys: jax.lax.map(run, keys))(jnp.stack(keys))
  for seed in (0, 1):
    alone, alone_info = run(keys[seed])
    jax.tree.map(
      np.testing.assert_array_equal,
      jax.tree.map(lambda x, i=seed: x[i], (together, info)),
      (alone, alone_info),
    )
  assert (together.tokens[0] != together.tokens[1]).any()


def test_no_room_for_given_tokens():
  """H = 0, as in a plain round, gives what H = T with nothing given gives."""
  asked = toys.request()
  narrow = asked.replace(given=jnp.zeros((R, 0), jnp.int32))
  np.testing.assert_array_equal(
    toys.sample(narrow).tokens, toys.sample(asked).tokens
  )
