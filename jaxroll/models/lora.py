"""How is a large model trained in little memory? Low-rank adapters.

  y = x W + (alpha / r) (x A) B,    A [D, r] Gaussian, B [r, F] zero

on chosen projections; W is frozen (and may be bfloat16), only A and B are
trained and have an optimiser state. At B = 0 the policy is the base.
`merge` gives W + (alpha / r) A B, a plain model again, to decode and to export.

The adapters are parameters like any others, so everything that trains a
`types.Policy` trains them:

  lm = lora.policy(base, frozen, rank=8, targets=("q", "v"))
  state = train.init_state(rules, lm, optimiser, sizes, key)

Arrays that a jitted function closes over are compiled into its program. Where
the base is too large for that, `bind` has the step read it from the state:

  make = functools.partial(train.make_step, rules, task, ...)
  step = lora.bind(make, base)
  state = state.replace(frozen=state.frozen | {"base": frozen})

Reference: Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang and Chen, "LoRA:
Low-Rank Adaptation of Large Language Models", 2021, arXiv:2106.09685.
"""

import inspect
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxroll import types

_A, _B = "lora_a", "lora_b"
_WIDE = ("kernel", "embedding")  # what `freeze` makes narrower


def policy(
  base: types.Policy,
  frozen=None,
  *,
  rank: int = 8,
  alpha: float = 16.0,
  targets: Sequence[str] = ("q", "v"),
) -> types.Policy:
  """The base with adapters: its parameters are the adapters alone.

  Args:
    base: types.Policy whose projections are flax modules with a `kernel`
      [..., D, F] that map x to x kernel, as those of `models.policy`.
    frozen: the base's parameters, in any dtype; None where they come along
      with the adapters, as `{"adapters": ..., "base": ...}`.
    rank: r, >= 1 and at most the smaller side of every chosen kernel.
    alpha: the adapters' scale is alpha / rank; > 0.
    targets: names of the projections, all layers'.

  Returns:
    types.Policy with params `{"adapters": tree}`, float32. Its functions take
    what `prepare` and `merge` return, too. `prepare` merges float32 kernels.

  Raises:
    ValueError: a number out of its range, or a target that is no projection.

  Note:
    A kernel of a narrower dtype stays apart from its adapter in `prepare`:
    rounded to bfloat16, an update smaller than 2^-9 of a weight is lost, and
    the sampler would stay behind the policy that is trained.

  Example:
    >>> from jaxroll import models
    >>> base = models.policy(models.Config(vocab_size=24))
    >>> lm = policy(base, base.init(jax.random.key(0)), rank=4)
    >>> adapters = lm.init(jax.random.key(1))["adapters"]
    >>> jax.tree.map(jnp.shape, adapters)["layers"]["q"]
    {'lora_a': (2, 128, 4), 'lora_b': (2, 4, 128)}
  """
  kernels = _kernels(base, rank, alpha, targets)

  def split(params):
    """The base's tree and the adapters, scaled; None without adapters."""
    if "adapters" not in params:
      return params, None
    tree = params["base"] if frozen is None else frozen
    return tree, params["adapters"]

  def init(key):
    adapters = {}
    for number, (path, shape) in enumerate(kernels.items()):
      *lead, inner, outer = shape
      own = jax.random.fold_in(key, number)
      a = jax.random.normal(own, (*lead, inner, rank)) * inner**-0.5
      b = jnp.zeros((*lead, rank, outer))
      _put(adapters, path, {_A: a, _B: b})
    return {"adapters": adapters}

  def adapted(function):
    """A function of the base's tree, with adapters."""

    def call(params, *args):
      tree, adapters = split(params)
      if adapters is not None:
        tree = _joined(tree, adapters, alpha)
      with nn.intercept_methods(_adapted):
        return function(tree, *args)

    return call

  def apply(params, tokens, positions, cache=None, column=None):
    return adapted(base.apply)(params, tokens, positions, cache, column)

  def unembed(params, hidden):
    return base.unembed(split(params)[0], hidden)

  def prepare(params):
    tree, adapters = split(params)
    if adapters is not None:
      narrow = _joined(tree, adapters, alpha)
      tree = _merged(narrow, lambda dtype: dtype == jnp.float32)
    return base.prepare(tree)

  _check_taken(base, kernels, rank)
  after = (base.prefill, base.extend)
  prefill, extend = (None if f is None else adapted(f) for f in after)
  return types.Policy(
    init, apply, unembed, base.init_cache, prepare, prefill, extend
  )


def merge(frozen, params, *, alpha: float):
  """The base's parameters with the adapters inside: W + (alpha / r) A B.

  Args:
    frozen: the base's parameters.
    params: `{"adapters": ...}`.
    alpha: as given to `policy`.

  Returns:
    A tree like `frozen`, for the base policy and for export. Sums are float32
    and rounded once, to each kernel's dtype.
  """
  joined = _joined(frozen, params["adapters"], alpha)
  return _merged(joined, lambda dtype: True)


def freeze(params, dtype="bfloat16"):
  """Kernels and embeddings in a narrower dtype, to be held and not trained.

  Args:
    params: a policy's parameters.
    dtype: of the kernels and embeddings; norms and biases stay as they are.

  Returns:
    The same tree.
  """

  def one(path, leaf):
    wide = jax.tree_util.keystr(path[-1:], simple=True) in _WIDE
    return leaf.astype(dtype) if wide else leaf

  return jax.tree_util.tree_map_with_path(one, params)


def bind(
  make: Callable,
  base: types.Policy,
  *,
  rank: int = 8,
  alpha: float = 16.0,
  targets: Sequence[str] = ("q", "v"),
):
  """A training step whose base lies in the state, as `frozen["base"]`.

  The base is then an argument of the jitted functions: sharded like any other
  parameter, on one device or on many, and never a constant of a program.

  Args:
    make: (policy) -> train.Step.
    base, rank, alpha, targets: as for `policy`.

  Returns:
    The train.Step, for `train.fused` and `train.hosted`. It takes states made
    by `train.init_state` with `policy(base, ...)`, `frozen["base"]` added.
  """
  options = dict(rank=rank, alpha=alpha, targets=targets)
  sampling = make(policy(base, **options))

  def whole(state):
    """The state with the base beside the adapters, for what only reads it."""
    learner = state.learners["policy"]
    params = learner.params | {"base": state.frozen["base"]}
    learner = learner.replace(params=params)
    return state.replace(learners=state.learners | {"policy": learner})

  def begin(state, data):
    return sampling.begin(whole(state), data)

  def generate(state, settings, draft, number):
    return sampling.generate(whole(state), settings, draft, number)

  def at_slots(state, settings, draft):
    return sampling.at_slots(whole(state), settings, draft)

  def learn(state, settings, draft):
    kept = dict(state.frozen)
    frozen = kept.pop("base")
    learning = make(policy(base, frozen, **options))
    state, output = learning.learn(state.replace(frozen=kept), settings, draft)
    # An input that is an output as it came in is not copied.
    return state.replace(frozen=kept | {"base": frozen}), output

  return sampling._replace(
    begin=begin,
    generate=generate,
    learn=learn,
    at_slots=None if sampling.at_slots is None else at_slots,
  )


def _kernels(base, rank, alpha, targets) -> dict:
  """Path of each module to be adapted -> shape of its kernel."""
  if not (alpha > 0 and math.isfinite(alpha)):
    raise ValueError(f"alpha={alpha}: must be finite and above 0")
  shapes = jax.eval_shape(base.init, jax.random.key(0))
  found = {}
  for path, leaf in jax.tree_util.tree_leaves_with_path(shapes):
    names = tuple(part.key for part in path)
    if names[-1] == "kernel" and names[0] != "head":
      found[names[:-1]] = leaf.shape
  known = sorted({path[-1] for path in found})
  unknown = sorted(set(targets) - set(known))
  if unknown or not targets:
    raise ValueError(
      f"targets={tuple(targets)!r}: give at least one of {known}"
    )
  chosen = {p: s for p, s in sorted(found.items()) if p[-1] in targets}
  most = min(min(shape[-2:]) for shape in chosen.values())
  if not 1 <= rank <= most:
    raise ValueError(
      f"rank={rank}: must be in [1, {most}], the smallest side of "
      f"{tuple(targets)!r}"
    )
  return chosen


def _check_taken(base, kernels, rank):
  """Refuses targets whose module is not called: they would never train."""
  taken = set()

  def note(call, args, kwargs, context):
    if _adapter(context) is not None:
      taken.add(context.module.name)
    return call(*args, **kwargs)

  def trace(key):
    tree = jax.tree.map(jnp.asarray, base.init(key))
    for path, (*lead, inner, outer) in kernels.items():
      own = {_A: jnp.zeros((*lead, inner, rank))}
      own[_B] = jnp.zeros((*lead, rank, outer))
      tree = _put(tree, path, own)
    one = jnp.zeros((1, 1), jnp.int32)
    # A jitted `apply` may have been traced before and would not be again.
    with nn.intercept_methods(note):
      return inspect.unwrap(base.apply)(tree, one, one)

  jax.eval_shape(trace, jax.random.key(0))
  missed = sorted({path[-1] for path in kernels} - taken)
  if missed:
    raise ValueError(
      f"targets {missed} are not flax modules that map x to x kernel: "
      "leave them out"
    )


def _adapter(context):
  """The module's own adapter, or None."""
  module = context.module
  if context.method_name != "__call__" or not module.has_variable("params", _A):
    return None
  return tuple(module.get_variable("params", name) for name in (_A, _B))


def _adapted(call, args, kwargs, context):
  """x kernel + (x A) B, where the module has an adapter."""
  y = call(*args, **kwargs)
  adapter = _adapter(context)
  if adapter is None:
    return y
  a, b = (leaf.astype(y.dtype) for leaf in adapter)
  (x,) = args or kwargs.values()
  return y + jnp.matmul(jnp.matmul(x.astype(y.dtype), a), b)


def _put(tree, path, leaves):
  """Adds leaves to the dict at a path; dicts on the way are copied."""
  level = tree
  for name in path:
    level[name] = dict(level.get(name, {}))
    level = level[name]
  level |= leaves
  return tree


def _joined(tree, adapters, alpha):
  """Each adapter beside its kernel, B times alpha / r."""
  joined = dict(tree)
  for name, own in adapters.items():
    if _A in own:
      scale = alpha / own[_A].shape[-1]
      joined[name] = tree[name] | {_A: own[_A], _B: scale * own[_B]}
    else:
      joined[name] = _joined(tree[name], own, alpha)
  return joined


def _merged(tree, where):
  """Adapters added to the kernels whose dtype `where` accepts, and gone."""
  if not isinstance(tree, dict):
    return tree
  if _A not in tree or not where(tree["kernel"].dtype):
    return {name: _merged(own, where) for name, own in tree.items()}
  rest = {n: leaf for n, leaf in tree.items() if n not in (_A, _B)}
  kernel = tree["kernel"]
  delta = jnp.matmul(tree[_A], tree[_B], preferred_element_type=jnp.float32)
  total = kernel.astype(jnp.float32) + delta
  return rest | {"kernel": total.astype(kernel.dtype)}
