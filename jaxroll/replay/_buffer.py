"""What does a pilot group that waits for its commit consist of?"""

import chex
import jax.numpy as jnp
from flax import struct

from jaxroll.types import Outcome, Rollouts, Sizes


class Buffer(struct.PyTreeNode):
  """Pilot groups that wait for their commit; W, C as in `pilots`.

  Attributes:
    ids: i32[C], -1 is a free place.
    mean, std: f32[C], of the scored pilots' rewards.
    born: i32[C], step in which the pilots were generated, -1 in a free place.
    evicted: bool[N], solved prompts.
    resumed: i32[W], ids that the running step has resumed, -1 none.
    rollouts: Rollouts with leading axes [C, pilot].
    outcome: Outcome [C, pilot].
  """

  ids: chex.Array
  mean: chex.Array
  std: chex.Array
  born: chex.Array
  evicted: chex.Array
  resumed: chex.Array
  rollouts: Rollouts
  outcome: Outcome


def empty(sizes: Sizes, groups: int, places: int, pilot: int) -> Buffer:
  """A buffer of free places."""

  def row(dtype):
    return jnp.zeros((places, pilot), dtype)

  def token(dtype):
    return jnp.zeros((places, pilot, sizes.response_length), dtype)

  integers = ("group", "index", "context", "born", "round")
  integers += ("given_length", "length")
  rollouts = Rollouts(
    **{name: row(jnp.int32) for name in integers},
    valid=row(bool),
    stopped=row(bool),
    tokens=token(jnp.int32),
    origin=token(jnp.int8),
    behaviour_logp=token(jnp.float32),
    entropy=token(jnp.float32),
    mask=token(bool),
  )
  return Buffer(
    ids=jnp.full(places, -1, jnp.int32),
    mean=jnp.zeros(places, jnp.float32),
    std=jnp.zeros(places, jnp.float32),
    born=jnp.full(places, -1, jnp.int32),
    evicted=jnp.zeros(sizes.num_ids, bool),
    resumed=jnp.full(groups, -1, jnp.int32),
    rollouts=rollouts,
    outcome=Outcome(reward=row(jnp.float32), status=row(jnp.int32)),
  )
