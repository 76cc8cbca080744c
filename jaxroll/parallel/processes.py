"""How do several processes run one program? Start, place, read, share out.

Every process runs the same code in the same order on global arrays, of which
it holds the shards of its own devices: JAX's multi-controller runtime. With
one process all of this does nothing, or what its JAX namesake does.
"""

import zlib
from collections.abc import Callable

import jax
import numpy as np
from jax import random
from jax.experimental import multihost_utils

from jaxroll.parallel.rules import RULES, shardings


def start_processes(
  coordinator: str | None = None,
  num_processes: int | None = None,
  process_id: int | None = None,
  *,
  heartbeat_timeout: int = 100,
  start_timeout: int = 300,
) -> None:
  """Makes this process one of several; before the first use of a device.

  Without arguments the cluster tells (TPU pods, GKE, Slurm, Open MPI). CPU
  devices talk over TCP by Gloo, and their programs are compiled anew in every
  process: one that XLA's CPU runtime loads from JAX's cache has lost the order
  of its collectives, and processes wait for each other for ever (seen with jax
  0.10.2). So this turns the cache off on CPUs.

  A process that dies ends the others, too: at once where a connection to it
  breaks, at the latest when it has been silent for `heartbeat_timeout`.

  Args:
    coordinator: "host:port" of process 0, a free port there.
    num_processes: of the run, >= 1.
    process_id: of this one, in [0, num_processes).
    heartbeat_timeout: seconds without a sign of life after which a process
      counts as dead, >= 1; also how long one waits for the others at its end.
    start_timeout: seconds in which all must have started, >= 1.

  Raises:
    ValueError: some of the three without the others, numbers out of range, or
      none of the three and no cluster.
    RuntimeError: after the first use of a device, or a second call.

  Example:
    parallel.start_processes("10.0.0.1:1234", 2, 0)  # on 10.0.0.1
    parallel.start_processes("10.0.0.1:1234", 2, 1)  # on another host
  """
  for name, value in (
    ("heartbeat_timeout", heartbeat_timeout),
    ("start_timeout", start_timeout),
  ):
    if value < 1:
      raise ValueError(f"{name}={value}: must be at least 1 second")
  explicit = {
    "coordinator": coordinator,
    "num_processes": num_processes,
    "process_id": process_id,
  }
  missing = [name for name, value in explicit.items() if value is None]
  if 0 < len(missing) < len(explicit):
    raise ValueError(
      f"{_shown(explicit)} without {', '.join(missing)}: give all three, or "
      "none where the cluster tells"
    )
  if not missing:
    _check_explicit(**explicit)
  timeouts = {
    "heartbeat_timeout_seconds": heartbeat_timeout,
    "shutdown_timeout_seconds": heartbeat_timeout,
    "initialization_timeout": start_timeout,
  }
  if not missing:
    jax.distributed.initialize(
      coordinator,
      num_processes,
      process_id,
      # A scheduler around us must not hide devices from us.
      cluster_detection_method="deactivate",
      **timeouts,
    )
  else:
    try:
      jax.distributed.initialize(**timeouts)
    except ValueError as error:
      raise ValueError(
        f"no cluster was found that tells where the processes are ({error}): "
        "give coordinator, num_processes and process_id"
      ) from error
  if jax.process_count() > 1 and jax.default_backend() == "cpu":
    jax.config.update("jax_enable_compilation_cache", False)


def _shown(arguments):
  given = {name: x for name, x in arguments.items() if x is not None}
  return ", ".join(f"{name}={value}" for name, value in given.items())


def _check_explicit(coordinator, num_processes, process_id):
  host, _, port = coordinator.rpartition(":")
  if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
    raise ValueError(
      f"coordinator={coordinator!r}: write host:port, the port in [1, 65535]"
    )
  if num_processes < 1:
    raise ValueError(f"num_processes={num_processes}: must be at least 1")
  if not 0 <= process_id < num_processes:
    raise ValueError(
      f"process_id={process_id}: must be in [0, {num_processes}), the number "
      "of processes"
    )


def check_same(what: str, text: str) -> None:
  """Refuses to go on where processes were started with something else.

  Args:
    what: how to call it.
    text: the same on every process; all must call.

  Raises:
    ValueError: on every process, naming those that differ from process 0.
  """
  if jax.process_count() == 1:
    return
  sums = multihost_utils.process_allgather(np.uint32(zlib.crc32(text.encode())))
  others = np.flatnonzero(sums != sums[0]).tolist()
  if others:
    raise ValueError(
      f"{what} of processes {others} is not that of process 0: start all of "
      "them with the same"
    )


def is_first() -> bool:
  """Whether this process writes what is written once: the one of index 0."""
  return jax.process_index() == 0


def place(tree, mesh: jax.sharding.Mesh | None, rules=RULES):
  """Lays a state over the mesh by the rule table, on however many processes.

  Args:
    tree: pytree of arrays, the same on every process, or global already.
    mesh: over the devices of all processes; None leaves the tree as it is.
    rules: see `spec_for`.

  Returns:
    The tree of global arrays.
  """
  if mesh is None:
    return tree
  where = shardings(tree, mesh, rules)
  if jax.process_count() == 1:
    return jax.device_put(tree, where)
  return jax.tree.map(_place, tree, where)


def _place(x, sharding):
  if isinstance(x, jax.Array) and not x.is_fully_addressable:
    return jax.device_put(x, sharding)
  if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
    words = _place(random.key_data(x), sharding)
    return random.wrap_key_data(words, impl=random.key_impl(x))
  # Not device_put: it would gather every leaf from all processes to compare.
  whole = np.asarray(x)
  return jax.make_array_from_callback(
    whole.shape, sharding, lambda index: whole[index]
  )


def to_host(tree):
  """`jax.device_get` of global arrays: all of them on every process.

  Args:
    tree: pytree of arrays. All processes must call, in the same order.

  Returns:
    The same tree of numpy arrays.
  """

  def whole(x):
    if not isinstance(x, jax.Array) or x.is_fully_addressable:
      return x
    if x.is_fully_replicated:
      return x.addressable_data(0)
    return multihost_utils.process_allgather(x, tiled=True)

  return jax.device_get(jax.tree.map(whole, tree))


def own_rows(verify: Callable, prompts, rows):
  """`verify(prompts, rows)`, of which each process does its part of the rows.

  Rows are dealt like cards, for the unused ones stand at the end.

  Args:
    verify: (prompts, rows) -> pytree of arrays [R, ...], each row's from that
      row alone.
    prompts: types.Prompts, numpy.
    rows: types.Rollouts [R], numpy; the same on every process.

  Returns:
    What `verify` returns of all R rows, numpy, on every process.
  """
  processes = jax.process_count()
  if processes == 1:
    return verify(prompts, rows)
  number = len(rows.valid)
  own = np.arange(-(-number // processes)) * processes + jax.process_index()
  real, own = own < number, np.minimum(own, number - 1)
  part = jax.tree.map(lambda x: x[own], rows)
  outcome = verify(prompts, part.replace(valid=part.valid & real))

  def collect(x):
    return x.swapaxes(0, 1).reshape(-1, *x.shape[2:])[:number]

  return jax.tree.map(collect, multihost_utils.process_allgather(outcome))
