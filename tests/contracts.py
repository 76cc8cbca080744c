"""What must hold for every function of a learning family?

A family's test module runs `pairs(family, CASES)` through `run`: every check
over every method of `__all__`, each method called with one sample batch wired
by argument name. A method without a row in its family's `cases.py` fails the
collection. A property that a paper's method does not have is named, with the
reason, in the row's `exceptions`: `run` then demands that the check FAILS, so
that no exception outlives its reason.
"""

import doctest
import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroll import types

ROWS, TOKENS, GROUPS = 16, 5, 6
SPECIALS = ("num_groups", "key", "step")
BY_GROUP = ("waiting",)


class Case(NamedTuple):
  """How a method is called, and which properties its paper denies it.

  Attributes:
    hyper: hyper-parameters of the call.
    required: names of those that have no default.
    infinite: output leaves that may be inf, as `jax.tree_util.keystr` writes.
    exceptions: name of a check -> why it does not hold.
  """

  hyper: dict = {}
  required: tuple = ()
  infinite: tuple = ()
  exceptions: dict = {}


class Method(NamedTuple):
  """A method bound to its case: `call(batch) -> output`."""

  fn: Callable
  case: Case
  names: tuple
  call: Callable


def bind(fn, case):
  """Wires a method by its argument names, as a recipe does."""
  parameters = inspect.signature(fn).parameters.values()
  names = tuple(
    p.name
    for p in parameters
    if p.default is p.empty and p.name not in case.required
  )
  columns = tuple(name for name in names if name not in SPECIALS)

  def call(batch):
    specials = {"num_groups": GROUPS} if "num_groups" in names else {}
    arguments = {name: batch[name] for name in columns}
    return fn(**arguments, **specials, **case.hyper)

  return Method(fn, case, columns, call)


def sample(seed=0):
  """A batch with everything that is awkward, one array a column.

  Groups: 0 mixed, 1 tied at a value whose sum is inexact, 2 with one valid row
  of two, 3 without a valid row, 4 mixed with an invalid row, 5 empty. Masks
  have holes; rows that are not valid, and one that is, have no trained token.
  """
  rng = np.random.default_rng(seed)
  group = np.array([0, 1, 4, 0, 3, 1, 2, 4, 0, 3, 1, 4, 2, 0, 3, 4])
  invalid = np.isin(np.arange(ROWS), (4, 9, 14, 12, 15))
  reward = rng.normal(size=ROWS)
  reward[group == 1] = 0.1 * (1 + seed)
  mask = rng.random((ROWS, TOKENS)) < 0.6
  mask[:, 2] = True
  mask[invalid | (np.arange(ROWS) == 3)] = False

  def logp():
    return -rng.gamma(2.0, 0.5, size=(ROWS, TOKENS))

  old_logp = logp()
  near = 0.3 * rng.normal(size=(4, ROWS, TOKENS))
  batch = {
    "reward": reward,
    "adv": rng.normal(size=ROWS),
    "logp": old_logp + near[0],
    "old_logp": old_logp,
    "anchor": old_logp + 0.1 * near[3],
    "behaviour_logp": old_logp + near[1],
    "ref_logp": old_logp + near[2],
    "entropy": -logp(),
    "low": np.full((ROWS, TOKENS), 0.8),
    "high": np.full((ROWS, TOKENS), 1.25),
    "weight": rng.uniform(0.5, 2.0, size=(ROWS, TOKENS)),
    "group": group,
    "index": np.tril(np.equal.outer(group, group), -1).sum(axis=1),
    "length": rng.integers(1, TOKENS + 1, size=ROWS),
    "valid": ~invalid,
    "stopped": rng.random(ROWS) < 0.5,
    "mask": mask,
    "waiting": np.arange(GROUPS) % 2 == seed % 2,
  }
  kinds = {"f": jnp.float32, "i": jnp.int32, "b": jnp.bool_}
  return {
    name: jnp.asarray(x, kinds[x.dtype.kind]) for name, x in batch.items()
  }


# --- how outputs and gradients are compared


def close(actual, expected, rtol=2e-6, atol=2e-6):
  """Equal trees, dtypes and shapes, and values up to rounding."""
  assert jax.tree.structure(actual) == jax.tree.structure(expected)
  for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected)):
    assert a.dtype == b.dtype and a.shape == b.shape, (a.aval, b.aval)
    np.testing.assert_allclose(
      np.asarray(a), np.asarray(b), rtol=rtol, atol=atol
    )


def floats(method, batch):
  """The float columns that the method reads."""
  return {n: batch[n] for n in method.names if batch[n].dtype.kind == "f"}


def direction(leaf, shape):
  """Random numbers that the leaf-th output is multiplied with."""
  random = np.random.default_rng(100 + leaf).normal(size=shape)
  return jnp.asarray(random, jnp.float32)


def gradients(method):
  """batch -> gradient to each float column of sum(direction * output).

  Random directions, since advantages sum to 0 and would hide their gradient.
  """

  def total(columns, batch):
    leaves = jax.tree.leaves(method.call({**batch, **columns}))
    return sum(
      (
        jnp.sum(jnp.where(jnp.isfinite(x), x, 0.0) * direction(i, x.shape))
        for i, x in enumerate(leaves)
        if x.dtype == jnp.float32
      ),
      start=jnp.zeros(()),
    )

  jitted = jax.jit(jax.grad(total))
  return lambda batch: jitted(floats(method, batch), batch)


def take(batch, order):
  """The batch with its rows in another order."""
  return {n: x if n in BY_GROUP else x[order] for n, x in batch.items()}


def excluded(name, batch):
  """Where a float column is never to be read."""
  return ~batch["mask"] if batch[name].ndim == 2 else ~batch["valid"]


def degenerate(batch):
  """Batches in which nothing can be learned, or everything is far away."""
  own = jnp.arange(ROWS, dtype=jnp.int32) % GROUPS
  nobody = jnp.zeros(ROWS, bool)
  old, anchor = batch["old_logp"], batch["anchor"]
  names = ("logp", "anchor", "behaviour_logp", "ref_logp")
  changes = {
    "tied": {"reward": jnp.full(ROWS, 0.1, jnp.float32)},
    "groups of one": {"group": own, "valid": jnp.arange(ROWS) < GROUPS},
    "nothing valid": {"valid": nobody},
    "all masked": {"mask": jnp.zeros_like(batch["mask"])},
    "on-policy": dict.fromkeys(names, old),
    "policy far above": {"logp": anchor + 100.0, "ref_logp": old - 100.0},
    "policy far below": {"logp": anchor - 100.0, "ref_logp": old + 100.0},
    "sampler far above": {"behaviour_logp": old + 100.0},
    "sampler far below": {"behaviour_logp": old - 100.0},
  }
  return {name: {**batch, **change} for name, change in changes.items()}


# --- checks: each takes (method, batch)


def check_wiring(method, batch):
  """Arguments without default are columns, hyper-parameters keyword-only."""
  unknown = set(method.names) - set(types.COLUMNS)
  assert not unknown, f"not in types.COLUMNS: {unknown}"
  for p in inspect.signature(method.fn).parameters.values():
    assert p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY), p
    if p.default is not p.empty or p.name in SPECIALS + method.case.required:
      assert p.kind is p.KEYWORD_ONLY, f"{p.name} must be keyword-only"
  assert set(method.case.required) <= set(method.case.hyper)


def check_documentation(method, batch):
  """The docstring has its parts and its example is true."""
  text = inspect.getdoc(method.fn)
  for part in ("Args:", "Returns:", "Example:"):
    assert part in text, f"docstring lacks {part}"
  module = inspect.getmodule(method.fn)
  tests = doctest.DocTestFinder(recurse=False).find(
    method.fn, globs=dict(vars(module)), module=module
  )
  runner = doctest.DocTestRunner(verbose=False)
  for test in tests:
    runner.run(test)
  assert runner.tries > 0 and runner.failures == 0


def check_jit_equals_eager(method, batch):
  close(jax.jit(method.call)(batch), method.call(batch))


def check_compiles_once(method, batch):
  """Other values of the same shapes do not trace again."""
  traces = []

  def call(batch):
    traces.append(None)
    return method.call(batch)

  jitted = jax.jit(call)
  jitted(batch)
  jitted(sample(seed=1))
  assert len(traces) == 1


def check_finite(method, batch):
  """Values, and gradients to all float columns, where nothing is learned."""
  call, gradient = jax.jit(method.call), gradients(method)
  for name, sad in {"sample": batch, **degenerate(batch)}.items():
    for path, x in jax.tree_util.tree_leaves_with_path(call(sad)):
      leaf = jax.tree_util.keystr(path)
      bad = jnp.isnan if leaf in method.case.infinite else _not_finite
      assert not jnp.any(bad(x)), f"{name}: output{leaf}"
    for column, x in gradient(sad).items():
      assert jnp.all(jnp.isfinite(x)), f"{name}: gradient to {column}"


def check_garbage_unread(method, batch):
  """NaN and inf in excluded places change neither values nor gradients.

  A function that takes no `valid` cannot know of a row that is not: there
  only the other rows are compared.
  """
  out, gradient = method.call(batch), gradients(method)
  for garbage in (jnp.nan, jnp.inf, -jnp.inf):
    dirty = {
      **batch,
      **{
        n: jnp.where(excluded(n, batch), garbage, x)
        for n, x in floats(method, batch).items()
      },
    }
    keep = jnp.ones(ROWS, bool) if "valid" in method.names else batch["valid"]
    by_row = functools.partial(_zero_where, ~keep)
    close(
      jax.tree.map(by_row, method.call(dirty)),
      jax.tree.map(by_row, out),
      rtol=0,
      atol=0,
    )
    close(
      jax.tree.map(by_row, gradient(dirty)),
      jax.tree.map(by_row, gradient(batch)),
    )


def check_row_order(method, batch):
  """Permuting rows permutes the output."""
  order = jnp.asarray(np.random.default_rng(3).permutation(ROWS))
  out = method.call(batch)
  close(method.call(take(batch, order)), jax.tree.map(lambda x: x[order], out))


def check_group_names(method, batch):
  """Relabelling the groups changes nothing."""
  label = jnp.array([4, 2, 5, 0, 1, 3], jnp.int32)
  renamed = {**batch, "group": label[batch["group"]]}
  renamed.update({n: batch[n][jnp.argsort(label)] for n in BY_GROUP})
  close(method.call(renamed), method.call(batch))


def check_groups_independent(method, batch):
  """What other groups did does not change a group's rows."""
  other = sample(seed=5)
  call = jax.jit(method.call)
  out = call(batch)
  for group in range(GROUPS - 1):
    own = batch["group"] == group
    changed = {
      n: _where_rows(own, x, 2.0 * other[n])
      for n, x in floats(method, batch).items()
    }
    only_own = functools.partial(_zero_where, ~own)
    close(
      jax.tree.map(only_own, call({**batch, **changed})),
      jax.tree.map(only_own, out),
    )


def check_reduces_in_float32(method, batch):
  """bfloat16 columns give what their float32 copies give, in float32."""
  narrow = {n: x.astype(jnp.bfloat16) for n, x in floats(method, batch).items()}
  wide = {n: x.astype(jnp.float32) for n, x in narrow.items()}
  close(method.call({**batch, **narrow}), method.call({**batch, **wide}))


def check_sharding(method, batch):
  """Rows over an 8-device mesh give the same values and dtypes."""
  auto = (jax.sharding.AxisType.Auto,)
  mesh = jax.make_mesh((8,), ("data",), axis_types=auto)
  rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
  whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
  placed = {
    n: jax.device_put(batch[n], whole if n in BY_GROUP else rows)
    for n in method.names
  }
  close(jax.jit(method.call)(placed), method.call(batch))


CHECKS = (
  check_wiring,
  check_documentation,
  check_jit_equals_eager,
  check_compiles_once,
  check_finite,
  check_garbage_unread,
  check_row_order,
  check_group_names,
  check_groups_independent,
  check_reduces_in_float32,
  check_sharding,
)
# These say nothing about a function without float columns, or without groups.
NEED_FLOATS = (
  check_garbage_unread,
  check_groups_independent,
  check_reduces_in_float32,
)
NEED_GROUPS = (check_group_names,)


def pairs(namespace, cases, checks=CHECKS):
  """(method's name, check) for every method of `__all__` it applies to."""
  batch = sample()
  found = []
  for name in namespace.__all__:
    assert name in cases, f"{namespace.__name__}.{name} has no row in cases.py"
    method = bind(getattr(namespace, name), cases[name])
    for check in checks:
      if check in NEED_FLOATS and not floats(method, batch):
        continue
      if check in NEED_GROUPS and "group" not in method.names:
        continue
      found.append(pytest.param(name, check, id=f"{name}-{check.__name__}"))
  return found


def run(namespace, name, check, cases):
  """Runs one check; one that the case excepts has to fail."""
  case = cases[name]
  method = bind(getattr(namespace, name), case)
  if check.__name__ in case.exceptions:
    with pytest.raises(AssertionError):
      check(method, sample())
  else:
    check(method, sample())


def _not_finite(x):
  return ~jnp.isfinite(x.astype(jnp.float32))


def _zero_where(rows, x):
  return _where_rows(rows, jnp.zeros_like(x), x)


def _where_rows(rows, x, y):
  return jnp.where(rows.reshape((-1,) + (1,) * (x.ndim - 1)), x, y)
