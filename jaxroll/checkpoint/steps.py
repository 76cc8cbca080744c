"""What lies in a step directory, and which step restores?"""

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from etils import epath
from jax import lax, random
from jax.experimental import multihost_utils

from jaxroll.checkpoint import agree

_DAMAGED = "CHECKPOINT OF STEP %d IS DAMAGED, trying an older one: %s"


class Restored(NamedTuple):
  """What `Checkpoints.restore` found."""

  state: Any
  metadata: dict
  step: int


class Checkpoints:
  """The checkpoints of one run, newest last.

  Args:
    directory: where the step directories lie; created. Nobody else writes it,
      and all processes of a run see it.
    keep: newest steps kept, >= 1; with two there is one to fall back to.
    every: steps between saves, >= 1.

  Raises:
    ValueError: keep or every below 1.

  Example:
    with Checkpoints(directory, keep=3, every=100) as checkpoints:
      restored = checkpoints.restore(state)
      if restored is not None:
        state, metadata, step = restored
      checkpoints.save(100, state, {"config": config})
  """

  def __init__(self, directory, *, keep: int = 3, every: int = 1):
    for name, value in (("keep", keep), ("every", every)):
      if value < 1:
        raise ValueError(f"{name}={value} must be at least 1: raise it")
    self._directory = epath.Path(os.fspath(directory)).absolute()
    self._keep, self._every = keep, every
    self._manager = self._open()

  def _open(self) -> ocp.CheckpointManager:
    # The metadata of old steps is not read here: a damaged one would make the
    # manager impossible to open.
    options = ocp.CheckpointManagerOptions(
      max_to_keep=self._keep,
      cleanup_tmp_directories=True,
      lightweight_initialize=True,
    )
    return ocp.CheckpointManager(self._directory, options=options)

  def _reader(self) -> contextlib.AbstractContextManager:
    """Reads this process's shards without meeting the others.

    Where only some of them can read a step, they would wait for each other.
    """
    if jax.process_count() == 1:
      return contextlib.nullcontext(self._manager)
    self.wait()
    alone = ocp.options.MultiprocessingOptions(
      primary_host=None, active_processes={jax.process_index()}
    )
    options = ocp.CheckpointManagerOptions(
      create=False,
      lightweight_initialize=True,
      multiprocessing_options=alone,
    )
    return ocp.CheckpointManager(self._directory, options=options)

  def steps(self) -> list[int]:
    """Returns the steps on disk, damaged ones included, oldest first."""
    names = (path.name for path in self._directory.iterdir())
    return sorted(int(name) for name in names if name.isdecimal())

  def save(
    self, step: int, state, metadata: Mapping[str, Any], *, force: bool = False
  ) -> bool:
    """Begins to write a step; returns when `state` may be donated.

    Args:
      step: steps done, >= 0; written if a multiple of `every` and not there.
      state: pytree of `jax.Array`, none weakly typed.
      metadata: JSON values: the config, `environment()`, host state.
      force: write whatever `every` says: for the last step of a run.

    Returns:
      Whether the step is being written. `wait` or the next `save` raises what
      the writing itself may raise.

    Raises:
      ValueError: a leaf of another type. TypeError: metadata is not JSON.
    """
    if step in self._manager.all_steps() or (step % self._every and not force):
      return False
    _check_leaves(state)
    body = {
      "layout": _layout(state),
      "checksum": checksums(state),
      "metadata": json.loads(json.dumps(metadata)),
    }
    items = ocp.args.Composite(
      state=ocp.args.StandardSave(state),
      record=ocp.args.JsonSave({"body": body, "crc": _crc(body)}),
    )
    # `force` is about orbax's own policy, which `every` has replaced.
    return self._manager.save(step, args=items, force=True)

  def restore(
    self, template, *, accept: Callable[[dict, int], None] | None = None
  ) -> Restored | None:
    """Returns the newest step that restores, or None where there is none.

    Steps that could not be read are moved aside, to `<step>.damaged`, once an
    older one has restored: they don't stand in the way of the same step when
    it is reached again, and nothing is lost if the disk was to blame.

    Args:
      template: a state with the wanted structure, shapes, dtypes and
        shardings: arrays, or `jax.ShapeDtypeStruct`s to spare their memory.
      accept: (metadata, step), before the state is read; raises ValueError
        where this run must not go on from there.

    Returns:
      Leaves equal to the saved ones bit by bit, sharded, and committed to
      their devices or not, like the template's: a function jitted for the
      template does not compile again.

    Raises:
      ValueError: from `accept`, or a saved leaf has another shape or dtype.
      RuntimeError: there are steps and none of them restores.
    """
    failures, found = {}, None
    with self._reader() as reader:
      for step in reversed(self.steps()):
        try:
          body, refusal, state = _read(reader, step, template, accept)
        except Exception as error:  # orbax raises bare Exceptions
          failures[step] = f"{type(error).__name__}: {str(error).strip()[:500]}"
          logging.warning(_DAMAGED, step, failures[step])
          continue
        if refusal:
          raise refusal
        found = Restored(state, body["metadata"], step)
        break
    if found is not None:
      self._move_aside(failures)
    elif failures:
      raise RuntimeError(
        f"none of the checkpoints in {self._directory} restores:\n"
        + "\n".join(f"  step {s}: {e}" for s, e in failures.items())
        + "\nmend the cause, or move the directory away to start over"
      )
    return found

  def _move_aside(self, steps: Sequence[int]) -> None:
    if not steps:
      return
    self._manager.close()
    if jax.process_index() == 0:
      for step in steps:
        aside = self._directory / f"{step}.damaged"
        if aside.is_dir():
          aside.rmtree()
        (self._directory / str(step)).rename(aside)
    if jax.process_count() > 1:
      multihost_utils.sync_global_devices("jaxroll.checkpoint.move_aside")
    self._manager = self._open()  # forgets the steps that have gone

  def wait(self) -> None:
    """Returns when all that was begun is on disk, or raises what went wrong."""
    self._manager.wait_until_finished()

  def close(self) -> None:
    """Waits, then frees the writing threads. Call it before the run ends."""
    self._manager.close()

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self.close()


def _read(reader, step: int, template, accept):
  """Returns a step's record, why it is refused (or None), and its state."""
  body, refusal, state, failure = {}, None, None, None
  try:
    items = ocp.args.Composite(record=ocp.args.JsonRestore())
    record = reader.restore(step, args=items)["record"]
    body = record["body"]
    if _crc(body) != record["crc"]:
      raise OSError("the record's checksum does not match")
    # A refusal is no damage: walking back would throw good steps away.
    refusal = _refusal(step, body, template, accept)
    if refusal is None:
      abstract = jax.tree.map(_abstract, template)
      items = ocp.args.Composite(state=ocp.args.StandardRestore(abstract))
      state = reader.restore(step, args=items)["state"]
  except Exception as error:
    failure = error
  elsewhere = agree.processes(failure is not None)
  if failure is not None:
    raise failure
  if elsewhere:
    raise OSError(f"processes {elsewhere} could not read it, see their logs")
  if state is not None:
    state = jax.tree.map(_like, template, state)
    lines = agree.differences(body["checksum"], checksums(state))
    if lines:
      raise OSError("checksums do not match:\n" + "\n".join(lines[:5]))
  return body, refusal, state


def _refusal(step: int, body: dict, template, accept) -> ValueError | None:
  """Returns why this run must not go on from a step, or None."""
  try:
    if accept is not None:
      accept(body["metadata"], step)
  except ValueError as error:
    return error
  # Orbax would cast dtypes without a word.
  lines = agree.differences(body["layout"], _layout(template))
  what = (
    f"the checkpoint of step {step} holds another state than this run's "
    f"({len(lines)} leaves differ):\n" + "\n".join(lines[:20]) + "\nuse "
    "the code and config that wrote it, or start in a new --workdir"
  )
  return ValueError(what) if lines else None


def _check_leaves(state) -> None:
  for path, leaf in jax.tree_util.tree_leaves_with_path(state):
    name = jax.tree_util.keystr(path)
    if not isinstance(leaf, jax.Array):
      raise ValueError(
        f"state{name} is a {type(leaf).__name__}: make it a jax.Array, or put "
        "it into the metadata if it is host state"
      )
    if getattr(leaf, "weak_type", False):
      raise ValueError(
        f"state{name} is weakly typed and would come back as {leaf.dtype}, "
        f"which compiles every step anew: give it a dtype"
      )


def _layout(state) -> dict[str, str]:
  return {
    jax.tree_util.keystr(path): f"{leaf.dtype}{list(leaf.shape)}"
    for path, leaf in jax.tree_util.tree_leaves_with_path(state)
  }


def _crc(body: dict) -> int:
  return zlib.crc32(json.dumps(body, sort_keys=True).encode())


def checksums(state) -> dict[str, int]:
  """Returns sum_i (2 i + 1) bits_i mod 2^32 of every leaf.

  An odd weight makes any change of one element show, and integer sums don't
  depend on their order: the same on every mesh, without a copy to the host.
  """
  flat = jax.tree_util.tree_leaves_with_path(state)
  # Leaf by leaf, for they need not all lie on the same devices, and one after
  # the other: on CPU, collectives of several programs in flight can deadlock.
  return {jax.tree_util.keystr(p): int(_leaf_checksum(x)) for p, x in flat}


@jax.jit
def _leaf_checksum(leaf: jax.Array) -> jax.Array:
  if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
    leaf = random.key_data(leaf)
  if jnp.issubdtype(leaf.dtype, jnp.floating):
    bits = min(8 * leaf.dtype.itemsize, 32)  # f64 becomes a pair of words
    leaf = lax.bitcast_convert_type(leaf, f"uint{bits}")
  index, stride = jnp.zeros(leaf.shape, jnp.uint32), 1
  for axis in reversed(range(leaf.ndim)):
    iota = lax.broadcasted_iota(jnp.uint32, leaf.shape, axis)
    index += iota * jnp.uint32(stride % 2**32)
    stride *= leaf.shape[axis]
  weighted = leaf.astype(jnp.uint32) * (2 * index + 1)
  return jnp.sum(weighted, dtype=jnp.uint32)


def _abstract(leaf) -> jax.ShapeDtypeStruct:
  device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
  sharding = leaf.sharding or device
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _like(template, leaf: jax.Array) -> jax.Array:
  """Takes `leaf` off its device again where `template` was on none."""
  # jit's cache tells committed arrays from uncommitted ones, and what orbax
  # restores is always committed.
  if getattr(template, "committed", template.sharding is not None):
    return leaf
  if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
    words = jnp.array(np.asarray(random.key_data(leaf)))
    return random.wrap_key_data(words, impl=random.key_impl(leaf))
  return jnp.array(np.asarray(leaf))
