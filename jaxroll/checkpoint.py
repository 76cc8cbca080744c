"""How does a killed run go on exactly where it was?

Everything a run needs lies in one directory per step: the train state (the
arrays, optimiser and typed PRNG keys included) and a JSON record (the config,
the environment, whatever the caller adds). A step directory appears by one
rename when all of it is written, so a kill leaves the previous step whole:

  run(2n) == resume(run(n), n)    bitwise, in the same environment.

A disk can damage what was once complete, so that every array is saved with a
checksum, and restoring walks back from the newest step until one holds. It
never silently starts over.
"""

import json
import os
import platform
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

from jaxroll import metrics

_ABSENT = "<absent>"
_DAMAGED = "CHECKPOINT OF STEP %d IS DAMAGED, trying an older one: %s"


class Restored(NamedTuple):
  """What `Checkpoints.restore` found."""

  state: Any
  metadata: dict
  step: int


class Checkpoints:
  """The checkpoints of one run, newest last.

  Args:
    directory: where the step directories lie; created. Nobody else writes it.
    keep: newest steps kept, >= 1; with two there is one to fall back to.
    every: steps between saves, >= 1.

  Raises:
    ValueError: keep or every below 1.

  Example:
    >>> with Checkpoints(directory, keep=3, every=100) as checkpoints:
    ...   restored = checkpoints.restore(state)
    ...   if restored is not None:
    ...     state, metadata, step = restored
    ...   checkpoints.save(100, state, {"config": config})
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
      "checksum": _checksums(state),
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

    Note:
      With several processes a step that only some of them can read is not
      fallen over: it ends the run.
    """
    failures = {}
    for step in reversed(self.steps()):
      try:
        body = self._read_record(step)
        # A refusal is no damage: walking back would throw good steps away.
        refusal = _refusal(step, body, template, accept)
        state = None if refusal else self._read_state(step, template, body)
      except Exception as error:  # orbax raises bare Exceptions
        failures[step] = f"{type(error).__name__}: {str(error).strip()[:500]}"
        logging.warning(_DAMAGED, step, failures[step])
        continue
      if refusal:
        raise refusal
      self._move_aside(failures)
      return Restored(state, body["metadata"], step)
    if failures:
      raise RuntimeError(
        f"none of the checkpoints in {self._directory} restores:\n"
        + "\n".join(f"  step {s}: {e}" for s, e in failures.items())
        + "\nmend the cause, or move the directory away to start over"
      )
    return None

  def _read_record(self, step: int) -> dict:
    items = ocp.args.Composite(record=ocp.args.JsonRestore())
    record = self._manager.restore(step, args=items)["record"]
    if _crc(record["body"]) != record["crc"]:
      raise OSError("the record's checksum does not match")
    return record["body"]

  def _read_state(self, step: int, template, body: dict):
    abstract = jax.tree.map(_abstract, template)
    items = ocp.args.Composite(state=ocp.args.StandardRestore(abstract))
    state = self._manager.restore(step, args=items)["state"]
    state = jax.tree.map(_like, template, state)
    lines = _differences(body["checksum"], _checksums(state))
    if lines:
      raise OSError("checksums do not match:\n" + "\n".join(lines[:5]))
    return state

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


def _refusal(step: int, body: dict, template, accept) -> ValueError | None:
  """Returns why this run must not go on from a step, or None."""
  try:
    if accept is not None:
      accept(body["metadata"], step)
  except ValueError as error:
    return error
  # Orbax would cast dtypes without a word.
  lines = _differences(body["layout"], _layout(template))
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


def _checksums(state) -> dict[str, int]:
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


def _differences(saved: Mapping, current: Mapping) -> list[str]:
  return [
    f"  {n}: saved {saved.get(n, _ABSENT)}, now {current.get(n, _ABSENT)}"
    for n in sorted({*saved, *current})
    if saved.get(n, _ABSENT) != current.get(n, _ABSENT)
  ]


def check_config(
  saved: Mapping, current: Mapping, *, free: Sequence[str] = ()
) -> None:
  """Refuses to resume a run under another config.

  Args:
    saved: nested dict out of a checkpoint's metadata.
    current: nested dict of this run, JSON values.
    free: dotted names of fields, or of whole sections, that may change.

  Raises:
    ValueError: names every field that differs and is not free.

  Example:
    >>> check_config({"lr": 1, "n": 9}, {"lr": 1, "n": 99}, free=("n",))
  """
  bound = [
    {
      name: value
      for name, value in metrics.flatten(json.loads(json.dumps(config))).items()
      if not any(f"{name}.".startswith(f"{field}.") for field in free)
    }
    for config in (saved, current)
  ]
  lines = _differences(*bound)
  if lines:
    raise ValueError(
      "the config differs from the one this run was started with:\n"
      + "\n".join(lines)
      + "\nset these fields back, or start in a new --workdir; free to change: "
      + (", ".join(free) or "none")
    )


def environment() -> dict[str, Any]:
  """Returns what besides config and code decides a run's last bits."""
  return {
    "python": platform.python_version(),
    "jax": jax.__version__,
    "jaxlib": jax.lib.__version__,
    "xla_flags": os.environ.get("XLA_FLAGS", ""),
    "device_kind": jax.devices()[0].device_kind,
    "device_count": jax.device_count(),
    "process_count": jax.process_count(),
  }


def warn_environment(saved: Mapping[str, Any]) -> list[str]:
  """Warns where this environment is not the one a checkpoint was written in.

  Args:
    saved: `environment()` of the run that saved.

  Returns:
    A line for each difference; with none of them the resume is bitwise.
  """
  lines = _differences(saved, environment())
  if lines:
    logging.warning(
      "the resume is no longer bitwise, the environment has changed:\n%s",
      "\n".join(lines),
    )
  return lines


def prepare_workdir(workdir, *, resume: bool) -> epath.Path:
  """Creates a run's directory, or makes sure that it may be written to.

  Args:
    workdir: the run's directory.
    resume: whether it may hold an earlier part of the run. A job that may be
      killed at any time always passes True: without a step it starts afresh.

  Returns:
    The directory's absolute path.

  Raises:
    ValueError: it holds files and `resume` is False.
  """
  path = epath.Path(os.fspath(workdir)).absolute()
  path.mkdir(parents=True, exist_ok=True)
  if not resume and any(path.iterdir()):
    raise ValueError(
      f"{path} is not empty: pass --resume to continue it or choose another "
      "--workdir"
    )
  return path
