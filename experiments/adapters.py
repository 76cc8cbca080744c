"""How does a run train adapters instead of a whole model? `config.lora`.

With `config.lora.rank` above 0 the pretrained model is the base: it lies in
`TrainState.frozen["base"]`, in `config.lora.base_dtype`, and is an argument of
every program. What is trained, and has an optimiser state, a reference and
checkpoints, are the adapters alone. A checkpoint says where its base came from,
with a checksum for each leaf, and does not hold it again.

With rank 0, or without the section, all functions here pass through what they
are given.
"""

import functools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from jaxroll import checkpoint, models, train, types

_BASE = "base"


def rank(config: ConfigDict) -> int:
  """The rank of the adapters, 0 where all parameters are trained.

  Raises:
    ValueError: for a negative one, or adapters on a model without weights.
  """
  found = config.lora.rank if "lora" in config else 0
  if found < 0:
    raise ValueError(
      f"lora.rank={found}: must be at least 0, which trains all parameters"
    )
  if found and not config.model.get("pretrained"):
    raise ValueError(
      f'lora.rank={found} with model.pretrained="": a new model is no base to '
      "freeze: set model.pretrained, or lora.rank to 0"
    )
  return found


def dtype(config: ConfigDict) -> str:
  """The dtype in which pretrained weights are held: trained ones are wide."""
  return config.lora.base_dtype if rank(config) else "float32"


def policy(config: ConfigDict, base: types.Policy, frozen=None) -> types.Policy:
  """The policy whose parameters are trained: adapters on the base, or it.

  Args:
    config: of the run.
    base: the whole model's.
    frozen: its parameters; None where they come along, see `params`.

  Returns:
    types.Policy.

  Raises:
    ValueError: for adapters that the model cannot have.
  """
  if not rank(config):
    return base
  try:
    return models.lora.policy(base, frozen, **_options(config))
  except ValueError as error:
    raise ValueError(
      f"config.lora, whose projections are the targets: {error}"
    ) from error


def step(
  config: ConfigDict, make: Callable[[types.Policy], train.Step], base
) -> train.Step:
  """The step of a run: its policy is the base, or adapters on it.

  Args:
    config: of the run.
    make: (policy) -> train.Step.
    base: the whole model's policy.
  """
  if not rank(config):
    return make(base)
  return models.lora.bind(make, base, **_options(config))


def params(state: types.TrainState):
  """The policy's parameters, with its base if they are adapters."""
  trained = state.learners["policy"].params
  if _BASE not in state.frozen:
    return trained
  return trained | {_BASE: state.frozen[_BASE]}


def with_base(state: types.TrainState, base) -> types.TrainState:
  """The state with a frozen base; None leaves it as it is."""
  if base is None:
    return state
  return state.replace(frozen=state.frozen | {_BASE: base})


def kept(state: types.TrainState) -> types.TrainState:
  """What a checkpoint holds: everything but the base."""
  frozen = {name: x for name, x in state.frozen.items() if name != _BASE}
  return state.replace(frozen=frozen)


def about(state: types.TrainState) -> dict:
  """What a checkpoint says of the base: a checksum for each leaf, by name."""
  if _BASE not in state.frozen:
    return {}
  return {_BASE: checkpoint.checksums(state.frozen[_BASE])}


def check_base(saved: Mapping, current: Mapping) -> None:
  """Refuses to go on from a checkpoint with another base.

  Args:
    saved: a checkpoint's metadata, with what `about` gave, if anything.
    current: what `about` gives now.

  Raises:
    ValueError: naming the leaves that differ.
  """
  old, new = saved.get(_BASE, {}), current.get(_BASE, {})
  wrong = [n for n in sorted({*old, *new}) if old.get(n) != new.get(n)]
  if wrong:
    raise ValueError(
      f"model.pretrained is not the base that the adapters were trained on, "
      f"{len(wrong)} of its {len({*old, *new})} leaves differ ({wrong[0]} "
      "first): restore its files, or start in a new --workdir"
    )


def merged(config: ConfigDict, params):
  """A whole model's parameters in float32, to export.

  Args:
    config: of the run.
    params: of `params`.
  """
  if _BASE not in params:
    return params
  wide = jax.tree.map(lambda x: x.astype(jnp.float32), params[_BASE])
  return _merge(wide, params, config.lora.alpha)


@functools.partial(jax.jit, static_argnums=2)
def _merge(base, params, alpha):
  return models.lora.merge(base, params, alpha=alpha)


def _options(config) -> dict:
  return {
    "rank": config.lora.rank,
    "alpha": config.lora.alpha,
    "targets": tuple(config.lora.projections),
  }
